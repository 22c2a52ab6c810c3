//! Tests of recording and replay, and of damaged traces.

use super::{Difference, MAGIC, Replay, TraceError, Traces};
use crate::hook_trace::Header;
use crate::registry::{self, CONTROLLERS};
use crate::testing::{Driver, config};
use bentpipe_profile::Nanos;
use bentpipe_profile::options::OptionValues;
use proptest::prelude::*;

const RTT: Nanos = Nanos::from_millis(40);

fn builder(header: &Header) -> Result<Box<dyn crate::Controller>, TraceError> {
    registry::build(&header.controller, &header.config(), &header.options).map_err(|error| TraceError::Header(error.to_string()))
}

/// Returns the trace of a flow over 100 packets per RTT with a short queue, in which packets are lost.
fn trace(name: &str, rtts: u64) -> Vec<u8> {
    let options = OptionValues::new();
    let traces = Traces::default();
    let controller = registry::build(name, &config(), &options).expect("known");
    let mut driver = Driver::new(traces.next_flow().record(&Header::new(name, &options, &config()), controller), RTT, 100, 30);
    driver.drop.extend([200, 1000, 1001]);
    driver.trace(RTT, rtts);
    traces.take().remove(0)
}

fn replay(trace: &[u8], part: usize) -> Result<(Option<Difference>, u64), TraceError> {
    let mut replay = Replay::default();
    for part in trace.chunks(part) {
        if let Some(difference) = replay.feed(part, &builder)? {
            return Ok((Some(difference), 0));
        }
    }
    Ok((None, replay.finish()?))
}

#[test]
fn a_trace_replayed_on_its_controller_has_no_difference() {
    for entry in CONTROLLERS {
        let trace = trace(entry.name, 200);
        let (difference, calls) = replay(&trace, 4096).expect("whole");
        assert!(difference.is_none() && calls > 5_000, "{}: {calls} calls, {difference:?}", entry.name);
    }
}

#[test]
fn a_trace_gives_the_same_result_in_parts_of_any_size() {
    let trace = trace("bbr3", 5);
    for part in [1, 7, 256, trace.len()] {
        assert!(matches!(replay(&trace, part), Ok((None, calls)) if calls > 100), "{part}");
    }
}

#[test]
fn the_first_call_with_another_window_is_reported() {
    let trace = trace("cubic", 100);
    let mut replay = Replay::default();
    let reno = |header: &Header| builder(&Header { controller: "reno".to_owned(), ..header.clone() });
    let difference = replay.feed(&trace, &reno).expect("whole").expect("CUBIC is not Reno");
    assert_ne!(difference.recorded, difference.replayed);
    let text = difference.to_string();
    assert!(text.starts_with(&format!("call {}, on_", difference.number)) && text.contains(" in the trace, "), "{text}");
}

#[test]
fn a_damaged_trace_is_refused_with_its_place() {
    let whole = trace("reno", 3);
    let refused = |bytes: &[u8]| replay(bytes, 4096).expect_err("must be refused").to_string();
    assert!(refused(b"PAR1 something else").starts_with("not a hook trace"));
    assert_eq!(refused(b"BPHOOKS\x02........"), "hook trace of version 2; expected version 1; record it again");
    assert!(refused(&whole[..12]).contains("ends within it"));
    assert!(refused(&whole[..whole.len() - 1]).contains("the trace ends within it"));
    let header = whole.len().min(16 + usize::from(whole[8]));
    let mut other = whole.clone();
    other[header] = 77;
    assert!(refused(&other).starts_with("call 0: the method is unknown"));
    let mut skipped = whole;
    skipped[header + 4] = 1;
    assert!(refused(&skipped).starts_with("call 0: its number is out of order"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_are_replayed_or_refused(after_magic in prop::collection::vec(any::<u8>(), 0..600), has_magic: bool) {
        let bytes = if has_magic { [&MAGIC[..], &after_magic].concat() } else { after_magic };
        let _ = replay(&bytes, 64);
    }

    #[test]
    fn a_trace_with_changed_words_is_replayed_or_refused(
        controller in 0..CONTROLLERS.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u64>(), 0..=1_u64 << 52, 0..100_u64]), 1..20),
    ) {
        let mut bytes = trace(CONTROLLERS[controller].name, 4);
        for (at, value) in changes {
            let word = at.index(bytes.len() / 8);
            bytes[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
        }
        let mut replay = Replay::default();
        let mut rest = &bytes[..];
        // After a difference the replay goes on: the controller must stand the rest, too.
        while let Ok(Some(_)) = replay.feed(rest, &builder) {
            rest = &[];
        }
    }
}
