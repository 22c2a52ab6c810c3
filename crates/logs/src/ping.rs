//! Parser for replies in the output of ping.
//!
//! `[1748560813.377794] 64 bytes from host (192.0.2.1): icmp_seq=1 ttl=63 time=47.1 ms`: with or without the timestamp, with `seq` (busybox) instead of
//! `icmp_seq`, with `hlim` (IPv6) instead of `ttl`. A line with text behind `ms` is not parsed: it is a duplicate or a damaged reply.

use crate::cursor::Cursor;
use crate::{UnparsedLines, lines};

/// Timestamp of a reply that was printed without one.
pub const NO_STAMP: i64 = i64::MIN;

/// The replies of a block of text, in order of lines.
#[derive(Debug, Default, PartialEq)]
pub struct Replies {
    /// Line numbers.
    pub line: Vec<u32>,
    /// Timestamps [ns since 1970]; [`NO_STAMP`]: none.
    pub stamp_ns: Vec<i64>,
    /// Sequence numbers as printed.
    pub seq: Vec<u32>,
    /// RTTs [ms].
    pub rtt_ms: Vec<f64>,
    /// All other lines.
    pub unparsed: UnparsedLines,
}

struct Reply {
    stamp_ns: i64,
    seq: u32,
    rtt_ms: f64,
}

/// Parse a block of whole lines, numbered from `first`. The last line may lack a line feed.
#[must_use]
pub fn replies(block: &[u8], first: u32) -> Replies {
    let mut parsed = Replies::default();
    let estimate = block.len() / 64;
    parsed.line.reserve(estimate);
    parsed.stamp_ns.reserve(estimate);
    parsed.seq.reserve(estimate);
    parsed.rtt_ms.reserve(estimate);
    for (number, line) in lines(block, first) {
        match reply(line) {
            Some(reply) => {
                parsed.line.push(number);
                parsed.stamp_ns.push(reply.stamp_ns);
                parsed.seq.push(reply.seq);
                parsed.rtt_ms.push(reply.rtt_ms);
            }
            None => parsed.unparsed.push(number, line),
        }
    }
    parsed
}

/// Parse one line; `None`: it is not a plain reply.
fn reply(line: &[u8]) -> Option<Reply> {
    let mut text = Cursor(line);
    let mut stamp_ns = NO_STAMP;
    if text.take(b"[").is_some() {
        let (seconds, _) = text.digits(10)?;
        text.take(b".")?;
        let (part, places) = text.digits(9)?;
        text.take(b"] ")?;
        stamp_ns = i64::try_from(10_i128.pow(9) * i128::from(seconds)).ok()? + part * 10_i64.pow(9 - u32::try_from(places).ok()?);
    }
    text.digits(6)?;
    text.take(b" bytes from ")?;
    let equals = text.0.iter().position(|&byte| byte == b'=')?;
    let (from, behind) = text.0.split_at(equals);
    let host = from.strip_suffix(b": icmp_seq").or_else(|| from.strip_suffix(b": seq"))?;
    if host.is_empty() || !host.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return None;
    }
    let mut text = Cursor(&behind[1..]);
    let (seq, _) = text.digits(9)?;
    if text.take(b" ttl=").is_some() || text.take(b" hlim=").is_some() {
        text.digits(3)?;
    }
    text.take(b" time=")?;
    let rtt_ms = text.decimal(9, 9)?.to_f64()?;
    (text.0 == b" ms").then_some(Reply { stamp_ns, seq: u32::try_from(seq).ok()?, rtt_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn replies_are_parsed_and_other_lines_returned() {
        let text = b"PING a (192.0.2.1) 56(84) bytes of data.\n\
            [1748560813.377794] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=63 time=47.1 ms\n\
            64 bytes from a.example (2001:db8::1): icmp_seq=2 hlim=63 time=0.034 ms\n\
            64 bytes from 192.0.2.1: seq=3 ttl=64 time=12 ms\n\
            64 bytes from 192.0.2.1: icmp_seq=3 ttl=64 time=12 ms (DUP!)\n\
            \n\
            64 bytes from 192.0.2.1: icmp_seq=4 ttl=64 time=12 ms";
        let parsed = replies(text, 10);
        assert_eq!(parsed.line, [11, 12, 13, 16]);
        assert_eq!(parsed.stamp_ns, [1_748_560_813_377_794_000, NO_STAMP, NO_STAMP, NO_STAMP]);
        assert_eq!(parsed.seq, [1, 2, 3, 4]);
        assert_eq!(parsed.rtt_ms, [47.1, 0.034, 12.0, 12.0]);
        assert_eq!(parsed.unparsed.lines, [10, 14, 15]);
        assert!(parsed.unparsed.text.ends_with(b"(DUP!)\n\n"));
    }

    #[test]
    fn a_line_that_is_almost_a_reply_is_not_parsed() {
        for line in [
            "64 bytes from : icmp_seq=1 ttl=63 time=47.1 ms",
            "64 bytes from a: icmp_seq=1 ttl=63 time<1 ms",
            "64 bytes from a: icmp_seq=1 ttl=63 time=1. ms",
            "64 bytes from a: icmp_seq=1234567890 time=1 ms",
            "64 bytes from a: icmp_seq=1 ttl=6300 time=1 ms",
            "64 bytes from a: icmp_seq=1 ttl=63 time=123456789.1234567 ms",
            "64 bytes from a\u{e9}: icmp_seq=1 ttl=63 time=1 ms",
            "[17485608131.377794] 64 bytes from a: icmp_seq=1 ttl=63 time=1 ms",
            "[.5] 64 bytes from a: icmp_seq=1 ttl=63 time=1 ms",
            "[1.5]64 bytes from a: icmp_seq=1 ttl=63 time=1 ms",
        ] {
            assert!(replies(line.as_bytes(), 1).line.is_empty(), "{line}");
        }
    }

    proptest! {
        /// Every line is returned once, parsed or not, and unparsed lines keep their bytes.
        #[test]
        fn every_line_is_returned_once(parts in prop::collection::vec("[a-z \\[\\].=0-9]{0,40}|64 bytes from a: icmp_seq=[0-9]{1,4} time=[0-9]{1,3} ms", 1..20)) {
            let text = parts.join("\n");
            let parsed = replies(text.as_bytes(), 1);
            let whole = text.strip_suffix('\n').unwrap_or(&text);
            prop_assert_eq!(parsed.line.len() + parsed.unparsed.lines.len(), whole.split('\n').count());
            let rest: String = parsed.unparsed.lines.iter().map(|&n| whole.split('\n').nth(n as usize - 1).unwrap().to_owned() + "\n").collect();
            prop_assert_eq!(rest.as_bytes(), parsed.unparsed.text);
        }

        #[test]
        fn an_rtt_is_the_nearest_double(whole in 0_u32..60_000, part in "[0-9]{1,9}") {
            let line = format!("64 bytes from a: icmp_seq=1 ttl=63 time={whole}.{part} ms");
            let parsed = replies(line.as_bytes(), 1);
            prop_assert_eq!(parsed.rtt_ms, [format!("{whole}.{part}").parse::<f64>().unwrap()]);
        }
    }
}
