//! A node's frames as a capture file that tcpdump and Wireshark read.

use crate::error::EmuError;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, TsResolution};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// See the module.
pub struct Recording {
    file: String,
    writer: PcapWriter<BufWriter<File>>,
    frame: Vec<u8>,
    /// Why it ended early.
    failure: Option<String>,
}

impl Recording {
    /// Create the file.
    ///
    /// # Errors
    /// [`EmuError::Capture`].
    pub fn create(path: &Path) -> Result<Self, EmuError> {
        let file = path.display().to_string();
        let failed = |reason: String| EmuError::Capture { file: file.clone(), reason };
        let output = BufWriter::new(File::create(path).map_err(|e| failed(e.to_string()))?);
        let header =
            PcapHeader { datalink: DataLink::ETHERNET, ts_resolution: TsResolution::NanoSecond, snaplen: 65_535, ..PcapHeader::default() };
        let writer = PcapWriter::with_header(output, header).map_err(|e| failed(e.to_string()))?;
        Ok(Self { file, writer, frame: Vec::new(), failure: None })
    }

    /// Record a frame of these parts.
    pub fn record(&mut self, parts: [&[u8]; 3]) {
        if self.failure.is_some() {
            return;
        }
        self.frame.clear();
        for part in parts {
            self.frame.extend_from_slice(part);
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        #[allow(clippy::cast_possible_truncation)] // a frame of a hop
        let packet = PcapPacket::new(at, self.frame.len() as u32, &self.frame);
        self.failure = self.writer.write_packet(&packet).err().map(|e| e.to_string());
    }

    /// Write what is left.
    ///
    /// # Errors
    /// [`EmuError::Capture`]: it or an earlier frame could not be written.
    pub fn close(mut self) -> Result<(), EmuError> {
        use std::io::Write as _;
        let Self { file, failure, .. } = &mut self;
        let (file, failure) = (std::mem::take(file), failure.take());
        let flushed = self.writer.into_writer().flush().err().map(|e| e.to_string());
        failure.or(flushed).map_or(Ok(()), |reason| Err(EmuError::Capture { file, reason }))
    }
}
