//! The file of a hook trace: a header, then a record for each call, all in little-endian words of 8 bytes.

use super::fields::{Field, LARGEST, NONE, Reader, WORD, Words, word};
use crate::registry::Config;
use crate::{AckSample, Congestion, Controller, LostPacket, PathHint};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::{Bytes, Nanos, Rate, Streams, Time};
use serde::{Deserialize, Serialize};

/// First bytes of a trace; the last one is the version of the format.
pub const MAGIC: [u8; 8] = *b"BPHOOKS\x01";
/// Longest record: an ACK's, with room.
const MAX_RECORD: usize = 512;
/// Longest header. Chosen here: ten times the options of every controller.
const MAX_HEADER: usize = 1 << 16;

/// What a controller is built with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Name in the registry, or of a Python controller.
    pub controller: String,
    /// Options that the user set.
    pub options: OptionValues,
    /// Maximum segment size [bytes].
    pub mss: u32,
    /// Initial window.
    pub initial_cwnd_bytes: Bytes,
    /// Seed of the connection's random streams.
    pub seed: u64,
    /// Whether the host paces every flow.
    pub paced: bool,
}

impl Header {
    /// Returns the header of a connection.
    #[must_use]
    pub fn new(controller: &str, options: &OptionValues, config: &Config) -> Self {
        Self {
            controller: controller.to_owned(),
            options: options.clone(),
            mss: config.mss,
            initial_cwnd_bytes: config.initial_cwnd,
            seed: config.streams.seed(),
            paced: config.paced,
        }
    }

    /// Returns the properties that the controller is built with.
    #[must_use]
    pub const fn config(&self) -> Config {
        Config { mss: self.mss, initial_cwnd: self.initial_cwnd_bytes, streams: Streams::new(self.seed), paced: self.paced }
    }

    /// Appends the header, padded to whole words.
    ///
    /// # Panics
    /// Never: a header is plain data.
    #[allow(clippy::cast_possible_truncation)] // a few kilobytes
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut json = serde_json::to_string(self).expect("plain data").into_bytes();
        json.resize(json.len().next_multiple_of(WORD), b' ');
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&(json.len() as u64).to_le_bytes());
        out.extend_from_slice(&json);
    }

    /// Reads a header from the start of a trace; returns it with its length. `None`: more bytes are needed.
    ///
    /// # Errors
    /// It is no hook trace, or of another version, or damaged.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, TraceError> {
        let begins = bytes.len().min(MAGIC.len());
        if bytes[..begins] != MAGIC[..begins] {
            return Err(if begins == MAGIC.len() && bytes[..7] == MAGIC[..7] {
                TraceError::Version(bytes[7])
            } else {
                TraceError::NotATrace
            });
        }
        let Some(length) = bytes.get(WORD..2 * WORD) else { return Ok(None) };
        let length = usize::try_from(word(length)).ok().filter(|length| *length <= MAX_HEADER && length % WORD == 0);
        let end = 2 * WORD + length.ok_or_else(|| TraceError::Header("its length is not valid".to_owned()))?;
        let Some(json) = bytes.get(2 * WORD..end) else { return Ok(None) };
        let header: Self = serde_json::from_slice(json).map_err(|error| TraceError::Header(error.to_string()))?;
        if !(1..=65_535).contains(&header.mss) || !(1..=LARGEST).contains(&header.initial_cwnd_bytes.0) {
            return Err(TraceError::Header("mss or initial_cwnd_bytes is out of range".to_owned()));
        }
        Ok(Some((header, end)))
    }
}

/// A trace that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The first bytes are others.
    #[error("not a hook trace; expected a file of `bentpipe race --hook-trace`")]
    NotATrace,
    /// Another version of the format.
    #[error("hook trace of version {0}; expected version 1; record it again")]
    Version(u8),
    /// The header cannot be read.
    #[error("header: {0}; expected a hook trace of version 1")]
    Header(String),
    /// A record cannot be read.
    #[error("call {call}: {problem}; expected a hook trace of version 1")]
    Record {
        /// Number of the call, from 0.
        call: u64,
        /// The first fault.
        problem: &'static str,
    },
}

/// Window, threshold and rate of a controller, as the sender sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold; `Bytes::MAX`: not set yet.
    pub ssthresh: Bytes,
    /// Pacing rate; `None`: the sender's own rule.
    pub pacing_rate: Option<Rate>,
}

impl State {
    /// Returns the state of a controller.
    #[must_use]
    pub fn of(controller: &dyn Controller) -> Self {
        Self { cwnd: controller.cwnd(), ssthresh: controller.ssthresh(), pacing_rate: controller.pacing_rate() }
    }
}

impl Field for State {
    fn put(self, out: &mut Words<'_>) {
        let known = |size: Bytes| Some(size).filter(|size| *size != Bytes::MAX);
        known(self.cwnd).put(out);
        known(self.ssthresh).put(out);
        self.pacing_rate.put(out);
    }
    fn take(words: &mut Reader<'_>) -> Result<Self, &'static str> {
        // A recorded state is only compared, never used, so it has no bound.
        Ok(Self {
            cwnd: Bytes(words.next()?),
            ssthresh: Bytes(words.next()?),
            pacing_rate: Some(words.next()?).filter(|rate| *rate != NONE).map(Rate),
        })
    }
}

/// One call of a controller.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // each is the method of this name
pub enum Call {
    Established { now: Time, rtt: Option<Nanos> },
    Acked(AckSample),
    Ack(AckSample),
    PacketLost(LostPacket),
    Congestion { now: Time, event: Congestion, in_flight: Bytes },
    Sent { now: Time, in_flight: Bytes, app_limited: bool },
    PathHint(PathHint),
    SetCwnd(Bytes),
    SetSsthresh(Bytes),
}

impl Call {
    /// Returns the name of the method.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Established { .. } => "on_established",
            Self::Acked(_) => "on_acked",
            Self::Ack(_) => "on_ack",
            Self::PacketLost(_) => "on_packet_lost",
            Self::Congestion { .. } => "on_congestion",
            Self::Sent { .. } => "on_sent",
            Self::PathHint(_) => "on_path_hint",
            Self::SetCwnd(_) => "set_cwnd",
            Self::SetSsthresh(_) => "set_ssthresh",
        }
    }

    /// Returns the time that the call has; `None`: it has none.
    #[must_use]
    pub const fn at(&self) -> Option<Time> {
        match self {
            Self::Established { now, .. } | Self::Congestion { now, .. } | Self::Sent { now, .. } => Some(*now),
            Self::Acked(ack) | Self::Ack(ack) => Some(ack.now),
            Self::PacketLost(lost) => Some(lost.now),
            Self::PathHint(_) | Self::SetCwnd(_) | Self::SetSsthresh(_) => None,
        }
    }

    /// Returns its kind in a record, and its arguments in the little-endian words that `crates/cc/hook_trace.h` declares.
    #[must_use]
    pub fn record(&self) -> (u16, Vec<u8>) {
        let mut bytes = Vec::with_capacity(MAX_RECORD);
        let kind = write_arguments(&mut Words(&mut bytes), self);
        (kind, bytes)
    }

    /// Makes the call.
    pub fn make(&self, controller: &mut dyn Controller) {
        match self {
            Self::Established { now, rtt } => controller.on_established(*now, *rtt),
            Self::Acked(ack) => controller.on_acked(ack),
            Self::Ack(ack) => controller.on_ack(ack),
            Self::PacketLost(lost) => controller.on_packet_lost(lost),
            Self::Congestion { now, event, in_flight } => controller.on_congestion(*now, *event, *in_flight),
            Self::Sent { now, in_flight, app_limited } => controller.on_sent(*now, *in_flight, *app_limited),
            Self::PathHint(hint) => controller.on_path_hint(hint),
            Self::SetCwnd(cwnd) => controller.set_cwnd(*cwnd),
            Self::SetSsthresh(ssthresh) => controller.set_ssthresh(*ssthresh),
        }
    }
}

/// Appends the arguments of a call; returns its kind.
fn write_arguments(words: &mut Words<'_>, call: &Call) -> u16 {
    match *call {
        Call::Established { now, rtt } => {
            now.put(words);
            rtt.put(words);
            1
        }
        Call::Acked(ack) => {
            ack.put(words);
            2
        }
        Call::Ack(ack) => {
            ack.put(words);
            3
        }
        Call::PacketLost(lost) => {
            lost.put(words);
            4
        }
        Call::Congestion { now, event, in_flight } => {
            now.put(words);
            event.put(words);
            in_flight.put(words);
            5
        }
        Call::Sent { now, in_flight, app_limited } => {
            now.put(words);
            in_flight.put(words);
            app_limited.put(words);
            6
        }
        Call::PathHint(hint) => {
            hint.put(words);
            7
        }
        Call::SetCwnd(cwnd) => {
            cwnd.put(words);
            8
        }
        Call::SetSsthresh(ssthresh) => {
            Some(ssthresh).filter(|size| *size != Bytes::MAX).put(words);
            9
        }
    }
}

/// Appends the record of a call: a word with kind, size and number, the arguments, the state after the call.
#[allow(clippy::cast_possible_truncation)] // the number wraps; a record is below 64 kB
pub(super) fn write_call(out: &mut Vec<u8>, number: u64, call: &Call, after: State) {
    let start = out.len();
    out.extend_from_slice(&[0; WORD]);
    let words = &mut Words(out);
    let kind = write_arguments(words, call);
    after.put(words);
    let size = (out.len() - start) as u16;
    out[start..start + 2].copy_from_slice(&kind.to_le_bytes());
    out[start + 2..start + 4].copy_from_slice(&size.to_le_bytes());
    out[start + 4..start + WORD].copy_from_slice(&(number as u32).to_le_bytes());
}

/// Reads the record at the start of `bytes`; returns the call, the state after it, and the record's size. `None`: more bytes are needed.
///
/// # Errors
/// The record is damaged.
#[allow(clippy::cast_possible_truncation)] // the number wraps
pub(super) fn read_call(bytes: &[u8], number: u64) -> Result<Option<(Call, State, usize)>, TraceError> {
    let Some(head) = bytes.get(..WORD) else { return Ok(None) };
    let kind = u16::from_le_bytes([head[0], head[1]]);
    let size = usize::from(u16::from_le_bytes([head[2], head[3]]));
    let damaged = |problem| TraceError::Record { call: number, problem };
    if word(&head[4..]) != u64::from(number as u32) {
        return Err(damaged("its number is out of order"));
    }
    if size < WORD {
        return Err(damaged("the record is too short"));
    }
    let Some(record) = bytes.get(WORD..size) else {
        return if size > MAX_RECORD { Err(damaged("the record is too long")) } else { Ok(None) };
    };
    let mut words = Reader(record);
    let (call, after) = read_fields(kind, &mut words).map_err(damaged)?;
    if words.0.is_empty() { Ok(Some((call, after, size))) } else { Err(damaged("the record is too long")) }
}

fn read_fields(kind: u16, words: &mut Reader<'_>) -> Result<(Call, State), &'static str> {
    let call = match kind {
        1 => Call::Established { now: Field::take(words)?, rtt: Field::take(words)? },
        2 => Call::Acked(Field::take(words)?),
        3 => Call::Ack(Field::take(words)?),
        4 => Call::PacketLost(Field::take(words)?),
        5 => Call::Congestion { now: Field::take(words)?, event: Field::take(words)?, in_flight: Field::take(words)? },
        6 => Call::Sent { now: Field::take(words)?, in_flight: Field::take(words)?, app_limited: Field::take(words)? },
        7 => Call::PathHint(Field::take(words)?),
        8 => Call::SetCwnd(Field::take(words)?),
        9 => Call::SetSsthresh(<Option<Bytes> as Field>::take(words)?.unwrap_or(Bytes::MAX)),
        _ => return Err("the method is unknown"),
    };
    Ok((call, State::take(words)?))
}
