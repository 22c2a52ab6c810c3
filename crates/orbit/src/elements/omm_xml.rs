//! Reader of OMM as XML: one `<omm>`, or many inside an `<ndm>`. Only leaf elements with CCSDS keywords are read. The reader streams and keeps no tree, so
//! that a deeply nested hostile file does no harm. It refuses entities other than XML's own five and character references.

use super::omm::{OmmFields, slot};
use super::{Elements, check_count};
use crate::error::{OrbitError, Place};
use quick_xml::events::Event;

/// Read every satellite of the file.
pub(super) fn read(bytes: &[u8], file: &str) -> Result<Vec<Elements>, OrbitError> {
    let text = std::str::from_utf8(bytes).map_err(|e| OrbitError::Syntax {
        place: Place { file: file.to_owned(), line: None, record: None },
        format: "XML",
        reason: format!("byte {} is not UTF-8", e.valid_up_to()),
    })?;
    let mut omm = OmmReader { text, file, position: 0, elements: Vec::new(), record: None, leaf: None };
    let mut reader = quick_xml::Reader::from_str(text);
    loop {
        omm.position = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
        let event = reader.read_event().map_err(|e| omm.syntax(e.to_string()))?;
        if matches!(event, Event::Eof) {
            break;
        }
        omm.on_event(&event)?;
    }
    if omm.record.is_some() {
        return Err(omm.syntax("the file ends inside <omm>; it is truncated".to_owned()));
    }
    Ok(omm.elements)
}

/// State of the streaming reader.
struct OmmReader<'a> {
    text: &'a str,
    file: &'a str,
    position: usize,
    elements: Vec<Elements>,
    /// The open `<omm>`.
    record: Option<OmmFields>,
    /// The slot of the open leaf element, and its text so far.
    leaf: Option<(usize, String)>,
}

impl OmmReader<'_> {
    /// Process one event of the parser.
    fn on_event(&mut self, event: &Event<'_>) -> Result<(), OrbitError> {
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

    /// Return the reader's position, without the line: counting lines for each of a million records would be quadratic.
    fn place(&self) -> Place {
        Place { file: self.file.to_owned(), line: None, record: Some(self.elements.len() + 1) }
    }

    /// Create a syntax error at the reader's position. It counts the lines, since it occurs once.
    fn syntax(&self, reason: String) -> OrbitError {
        let before = &self.text.as_bytes()[..self.position.min(self.text.len())];
        #[allow(clippy::naive_bytecount, reason = "once in a failing read; not worth a dependency")]
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count() as u64;
        OrbitError::Syntax { place: Place { line: Some(line), ..self.place() }, format: "XML", reason }
    }
}
