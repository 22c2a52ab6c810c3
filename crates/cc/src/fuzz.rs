//! Model-based fuzzing of every registered controller, with options at the ends of their ranges: window and rate stay positive whatever a sender reports.

use super::fuzz_steps::{Sender, extremes, magnitude, step};
use super::registry::{CONTROLLERS, Config};
use super::testing::{MSS, in_bytes, state_of};
use bentpipe_profile::{Nanos, Streams, Time};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn window_and_rate_stay_positive_after_any_events(seed: u64, paced: bool, pick in prop_oneof![Just(0_u128), any::<u128>()], established in proptest::option::of(magnitude(40)), steps in prop::collection::vec(step(), 1..300)) {
        for entry in CONTROLLERS {
            let config = Config { mss: MSS, initial_cwnd: in_bytes(10), streams: Streams::new(seed), paced };
            let values = entry.declared().check(&extremes(entry, pick)).expect("in range");
            let mut controller = (entry.build)(&config, &values);
            let mut sender = Sender::default();
            controller.on_established(Time::ZERO, established.map(Nanos));
            for (pause, step) in &steps {
                for call in sender.calls(*pause, step) {
                    call.make(controller.as_mut());
                }
                prop_assert!(controller.cwnd() >= in_bytes(1), "{}: {:?} after {step:?}", entry.name, controller.cwnd());
                prop_assert!(controller.pacing_rate().is_none_or(|rate| rate.0 > 0), "{} stops after {step:?}", entry.name);
                prop_assert!(!state_of(&*controller).is_empty(), "{} has no state", entry.name);
            }
        }
    }
}
