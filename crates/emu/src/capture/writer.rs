//! The capture's writer thread. It has ordinary priority: it may be late, the relay must not.

use super::channel::{OVERHEAD, Received, RecordReceiver};
use super::reorder::ReorderBuffer;
use super::{Fate, Record, comment};
use crate::error::EmuError;
use bentpipe_profile::{Profile, Time};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};
use serde::Serialize;
use std::borrow::Cow;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Poll interval of an empty channel. The writer polls because a wake-up would cost the relay a system call for each packet.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Most memory of packets held for an earlier packet's fate, at each end [bytes]: a third of the capture's bound. Chosen here.
const MAX_HELD_BYTES: usize = 64 << 20;

/// Buffered bytes at which whole blocks are written to the file.
const FLUSH_BYTES: usize = 1 << 20;

/// `if_tsresol`: units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// `epb_flags`: inbound, outbound.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Outcome of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CaptureReport {
    /// Packets in the files, the client's first.
    pub written: [u64; 2],
    /// Packets in neither file, because the writer was too slow.
    pub not_captured: u64,
    /// Packets written after later ones: more overtook them on the path than the writer may hold back.
    pub out_of_order: u64,
    /// Why the files end before the run; `None`: they are complete.
    pub failed: Option<String>,
}

/// One instant on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Anchor {
    /// Nanoseconds since 1970, UTC.
    pub unix_ns: u64,
    /// The relay's time.
    pub at: Time,
}

impl Anchor {
    const fn unix_ns(&self, at: Time) -> u64 {
        if at.0 >= self.at.0 { self.unix_ns + (at.0 - self.at.0) } else { self.unix_ns.saturating_sub(self.at.0 - at.0) }
    }
}

/// The capture files of client and server.
pub struct Files([Trace; 2]);

impl Files {
    /// Creates `client.pcapng` and `server.pcapng` in `folder`.
    ///
    /// # Errors
    /// [`EmuError::Capture`].
    pub fn create(folder: &Path) -> Result<Self, EmuError> {
        Ok(Self([Trace::create(folder, "client")?, Trace::create(folder, "server")?]))
    }
}

/// One end's packets.
struct Trace {
    path: PathBuf,
    file: File,
    blocks: PcapNgWriter<Vec<u8>>,
    written: u64,
    /// Latest time of a packet in it.
    latest: Time,
    out_of_order: u64,
}

impl Trace {
    fn create(folder: &Path, end: &'static str) -> Result<Self, EmuError> {
        let path = folder.join(format!("{end}.pcapng"));
        let failed = |reason: String| EmuError::Capture { file: path.display().to_string(), reason };
        let file = File::create(&path).map_err(|e| failed(e.to_string()))?;
        let program = concat!("bentpipe ", env!("CARGO_PKG_VERSION"));
        let section = SectionHeaderBlock {
            endianness: Endianness::Little,
            options: vec![SectionHeaderOption::UserApplication(program.into())],
            ..Default::default()
        };
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::RAW,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(end.into()),
                InterfaceDescriptionOption::IfDescription(format!("the {end}'s end of an emulated path").into()),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        let begun = PcapNgWriter::with_section_header(Vec::new(), section).and_then(|mut blocks| {
            blocks.write_pcapng_block(interface)?;
            Ok(blocks)
        });
        let mut trace = Self {
            blocks: begun.map_err(|e| failed(describe_error(&e)))?,
            path: path.clone(),
            file,
            written: 0,
            latest: Time::ZERO,
            out_of_order: 0,
        };
        trace.flush().map_err(|e| failed(describe_error(&e)))?;
        Ok(trace)
    }

    fn packet(&mut self, unix_ns: u64, data: &[u8], flags: u32, comment: String) -> Result<(), PcapError> {
        self.blocks.write_pcapng_block(EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(unix_ns),
            original_len: u32::try_from(data.len()).unwrap_or(u32::MAX),
            data: Cow::Borrowed(data),
            options: vec![EnhancedPacketOption::Comment(comment.into()), EnhancedPacketOption::Flags(flags)],
        })?;
        self.written += 1;
        if self.blocks.get_ref().len() >= FLUSH_BYTES { self.flush() } else { Ok(()) }
    }

    fn end(&mut self, unix_ns: u64, missed: u64) -> Result<(), PcapError> {
        let mut options = vec![InterfaceStatisticsOption::IsbIfRecv(self.written + missed), InterfaceStatisticsOption::IsbIfDrop(missed)];
        let gaps = [
            (missed, "came faster than they could be written: in neither end's file"),
            (self.out_of_order, "stand behind later ones: more passed them inside the path than could be held back"),
        ];
        let notes = gaps.into_iter().filter(|(packets, _)| *packets > 0).map(|(packets, problem)| format!("{packets} packets {problem}"));
        options.extend(notes.map(|text| InterfaceStatisticsOption::Comment(text.into())));
        self.blocks.write_pcapng_block(InterfaceStatisticsBlock {
            interface_id: 0,
            // The format has the high half first (draft-ietf-opsawg-pcapng, Interface Statistics Block); the crate writes one little-endian number.
            timestamp: unix_ns.rotate_left(32),
            options,
        })?;
        self.flush()
    }

    /// Writes whole blocks to the file, which stay readable if the process is killed.
    fn flush(&mut self) -> Result<(), PcapError> {
        let blocks = self.blocks.get_mut();
        let written = self.file.write_all(blocks);
        blocks.clear();
        written.map_err(PcapError::IoError)
    }
}

/// See the module.
pub(super) struct Writer {
    traces: [Trace; 2],
    buffers: [ReorderBuffer<(Rc<Record>, u32)>; 2],
    profile: Arc<Profile>,
    anchor: Anchor,
    failed: Option<String>,
    last: Time,
}

impl Writer {
    pub(super) fn new(files: Files, profile: Arc<Profile>, anchor: Anchor) -> Self {
        Self::with_limit(MAX_HELD_BYTES, files, profile, anchor)
    }

    fn with_limit(max_bytes: usize, files: Files, profile: Arc<Profile>, anchor: Anchor) -> Self {
        let buffers = [ReorderBuffer::new(max_bytes), ReorderBuffer::new(max_bytes)];
        Self { traces: files.0, buffers, profile, anchor, failed: None, last: anchor.at }
    }

    /// Writes until the relay has ended.
    pub(super) fn run(mut self, mut from: RecordReceiver) -> CaptureReport {
        loop {
            match from.take() {
                Received::Packet(record) => {
                    let upto = record.upto;
                    self.take(record);
                    self.release(upto, &mut from);
                }
                Received::Nothing => {
                    self.try_write(|traces| traces.iter_mut().try_for_each(Trace::flush));
                    thread::sleep(POLL_INTERVAL);
                }
                Received::End => break,
            }
        }
        self.release([Time::MAX; 2], &mut from);
        let (missed, end) = (from.missed(), self.anchor.unix_ns(self.last));
        self.try_write(|traces| traces.iter_mut().try_for_each(|trace| trace.end(end, missed)));
        let out_of_order = self.traces.iter().map(|trace| trace.out_of_order).sum();
        CaptureReport { written: self.traces.map(|trace| trace.written), not_captured: missed, out_of_order, failed: self.failed }
    }

    fn take(&mut self, record: Record) {
        let (end, size) = (record.direction as usize, record.content.size() + OVERHEAD);
        let record = Rc::new(record);
        if let Fate::Delivered { handed_at, is_accepted: true, .. } = record.fate {
            self.buffers[1 - end].insert(handed_at, size, (Rc::clone(&record), INBOUND));
        }
        self.buffers[end].insert(record.sent, size, (record, OUTBOUND));
    }

    fn release(&mut self, upto: [Time; 2], from: &mut RecordReceiver) {
        for (end, upto) in upto.into_iter().enumerate() {
            while let Some((at, (record, flags))) = self.buffers[end].pop(upto) {
                self.last = self.last.max(at);
                self.write(end, at, &record, flags);
                if let Ok(record) = Rc::try_unwrap(record) {
                    from.return_content(record.content);
                }
            }
        }
    }

    fn write(&mut self, end: usize, at: Time, record: &Record, flags: u32) {
        if self.failed.is_some() {
            return;
        }
        let text = match record.fate {
            Fate::Delivered { delay, late, .. } if flags == INBOUND => {
                comment::received(record.number, self.anchor.unix_ns(record.sent), delay, late)
            }
            _ => comment::sent(&self.profile, record.number, &record.fate, &record.content.stage_times),
        };
        let trace = &mut self.traces[end];
        trace.out_of_order += u64::from(at < trace.latest);
        trace.latest = trace.latest.max(at);
        let unix_ns = self.anchor.unix_ns(at);
        self.try_write(|traces| traces[end].packet(unix_ns, &record.content.bytes, flags, text));
    }

    /// Runs `work`; after a write error no more is written, but the run goes on.
    fn try_write(&mut self, work: impl FnOnce(&mut [Trace; 2]) -> Result<(), PcapError>) {
        if self.failed.is_some() {
            return;
        }
        if let Err(error) = work(&mut self.traces) {
            let folder = self.traces[0].path.parent().unwrap_or(Path::new(""));
            self.failed = Some(format!("{}: {}", folder.display(), describe_error(&error)));
        }
    }
}

fn describe_error(error: &PcapError) -> String {
    match error {
        PcapError::IoError(source) => source.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::channel;
    use super::*;
    use bentpipe_profile::{
        Basis, Direction, Hop, HopDirection, Nanos, Provenance, QueueDiscipline, QueueLimit, QueueSpec, RouteEntry, Series, Utc,
    };
    use pcap_file::pcapng::{Block, PcapNgReader};

    fn profile() -> Arc<Profile> {
        let side = HopDirection {
            delay: Series::constant(1),
            capacity: None,
            queue: QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Packets(1) },
            jitter: None,
            loss: None,
        };
        let provenance = Provenance {
            kind: "preset".to_owned(),
            description: String::new(),
            made_by: String::new(),
            seed: None,
            includes: Vec::new(),
            recipe: serde_json::Value::Null,
        };
        let hops = vec![Hop { name: "h".to_owned(), shared_id: None, up: side.clone(), down: side }];
        let routes = vec![RouteEntry { at_ns: Time::ZERO, hops: vec![0] }];
        let made = Profile::new("p".to_owned(), Utc(0), Nanos::from_secs(1), Basis::OneWay, provenance, hops, routes, Vec::new());
        Arc::new(made.unwrap())
    }

    /// Report and comments after `passing` packets are dropped while the first is still on the path; the writer may hold `max_bytes`.
    fn written(passing: u64, max_bytes: usize) -> (CaptureReport, Vec<String>) {
        let folder = std::env::temp_dir().join(format!("bentpipe-writer-{}-{passing}-{max_bytes}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (mut sender, receiver) = channel::channel();
        let fate = |after| Fate::Dropped { cause: bentpipe_link::DropCause::QueueFull, after, at: Time::ZERO, route: 0, position: 0 };
        for number in (2..passing + 2).chain([1]) {
            let content = sender.copy(&[0x45; 100], 0);
            let upto = [if number == 1 { Time(passing + 2) } else { Time(1) }, Time(passing + 2)];
            sender.send(content.map(|content| Record {
                direction: Direction::Up,
                number,
                sent: Time(number),
                content,
                fate: fate(Nanos(0)),
                upto,
            }));
        }
        drop(sender);
        let anchor = Anchor { unix_ns: 0, at: Time::ZERO };
        let report = Writer::with_limit(max_bytes, Files::create(&folder).unwrap(), profile(), anchor).run(receiver);
        let mut comments = Vec::new();
        let mut reader = PcapNgReader::new(File::open(folder.join("client.pcapng")).unwrap()).unwrap();
        while let Some(block) = reader.next_block() {
            if let Block::InterfaceStatistics(statistics) = block.unwrap() {
                comments.extend(statistics.options.iter().filter_map(|option| match option {
                    InterfaceStatisticsOption::Comment(text) => Some(text.to_string()),
                    _ => None,
                }));
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
        (report, comments)
    }

    #[test]
    fn packets_out_of_order_are_reported_and_none_is_lost() {
        let (report, comments) = written(50, usize::MAX);
        assert_eq!(report, CaptureReport { written: [51, 0], not_captured: 0, out_of_order: 0, failed: None });
        assert_eq!(comments, [""; 0]);
        let (report, comments) = written(50, 20 * (OVERHEAD + 100));
        assert_eq!(report, CaptureReport { written: [51, 0], not_captured: 0, out_of_order: 1, failed: None });
        assert_eq!(comments, ["1 packets stand behind later ones: more passed them inside the path than could be held back"]);
    }
}
