//! OMM as XML: one `<omm>`, or many inside an `<ndm>`. Only leaf elements with CCSDS keywords matter, so the reader streams and keeps no tree: a
//! hostile file cannot nest it to death. Entities other than XML's own five and character references are refused.

use super::omm::{OmmFields, slot};
use super::{Elements, check_count};
use crate::error::{OrbitError, Place};
use quick_xml::events::Event;

/// Every satellite of the file.
pub(super) fn read(bytes: &[u8], file: &str) -> Result<Vec<Elements>, OrbitError> {
    let text = std::str::from_utf8(bytes).map_err(|e| OrbitError::Syntax {
        place: Place { file: file.to_owned(), line: None, record: None },
        format: "XML",
        reason: format!("byte {} is not UTF-8", e.valid_up_to()),
    })?;
    let mut walk = Walk { text, file, position: 0, elements: Vec::new(), record: None, leaf: None };
    let mut reader = quick_xml::Reader::from_str(text);
    loop {
        walk.position = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
        let event = reader.read_event().map_err(|e| walk.syntax(e.to_string()))?;
        if matches!(event, Event::Eof) {
            break;
        }
        walk.take(&event)?;
    }
    if walk.record.is_some() {
        return Err(walk.syntax("the file ends inside <omm>; it is cut off".to_owned()));
    }
    Ok(walk.elements)
}

struct Walk<'a> {
    text: &'a str,
    file: &'a str,
    position: usize,
    elements: Vec<Elements>,
    /// The open `<omm>`.
    record: Option<OmmFields>,
    /// The open element with a keyword of ours, and its text so far.
    leaf: Option<(usize, String)>,
}

impl Walk<'_> {
    fn take(&mut self, event: &Event<'_>) -> Result<(), OrbitError> {
        match event {
            Event::Start(tag) if tag.local_name().as_ref() == "omm" => {
                check_count(self.elements.len(), self.file)?;
                if self.record.replace(OmmFields::default()).is_some() {
                    return Err(self.syntax("<omm> inside <omm>".to_owned()));
                }
            }
            Event::Start(tag) => {
                self.leaf = slot(tag.local_name().as_ref()).map(|slot| (slot, String::new()));
            }
            Event::Text(part) => {
                if let Some((_, value)) = &mut self.leaf {
                    value.push_str(&part.xml10_content());
                }
            }
            Event::GeneralRef(entity) if self.leaf.is_some() => {
                let plain = quick_xml::escape::unescape(&format!("&{};", entity.xml10_content()))
                    .map_err(|e| self.syntax(e.to_string()))?
                    .into_owned();
                if let Some((_, value)) = &mut self.leaf {
                    value.push_str(&plain);
                }
            }
            Event::End(tag) if tag.local_name().as_ref() == "omm" => {
                let Some(fields) = self.record.take() else {
                    return Err(self.syntax("</omm> without <omm>".to_owned()));
                };
                let elements = fields.elements(&self.place())?;
                self.elements.push(elements);
            }
            Event::End(_) => {
                let place = self.place();
                if let (Some((slot, value)), Some(fields)) = (self.leaf.take(), &mut self.record) {
                    fields.set(slot, &value, &place)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Where the reader stands, without the line: counting lines for each of a million records would be quadratic.
    fn place(&self) -> Place {
        Place { file: self.file.to_owned(), line: None, record: Some(self.elements.len() + 1) }
    }

    /// A syntax error where the reader stands. It ends the reading, so here the line is counted.
    fn syntax(&self, reason: String) -> OrbitError {
        let before = &self.text.as_bytes()[..self.position.min(self.text.len())];
        #[allow(clippy::naive_bytecount, reason = "once in a failing read; not worth a dependency")]
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count() as u64;
        OrbitError::Syntax { place: Place { line: Some(line), ..self.place() }, format: "XML", reason }
    }
}
