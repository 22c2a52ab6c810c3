//! Behaviours of Linux that need both ends to test, one per test. Those of a single module are tested beside it.

use super::testing::{Fate, FixedWindow, MSS, Pipe, ms};
use crate::config::{ReceiverConfig, SenderConfig};
use crate::stats::{FlowEvent, UndoCause};
use bentpipe_cc::RecoveryState;
use bentpipe_profile::{Bytes, Nanos, Rate, Time};

mod bbr3_appendix_a;
mod growth;
mod laws;
mod recovery;
mod timing;

fn lose(lost: &'static [u64]) -> impl FnMut(&crate::wire::Segment, usize) -> Fate {
    move |s, _| if !s.retransmission && lost.contains(&(s.seq / MSS)) { Fate::Drop } else { Fate::Deliver }
}

fn kinds(pipe: &mut Pipe) -> Vec<FlowEvent> {
    pipe.events().into_iter().map(|(_, e)| e).collect()
}
