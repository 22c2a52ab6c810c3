//! Methods of `Controller` as values: for controllers that record, compare or hand on what they are told.

/// Implements the named methods of [`Controller`](crate::Controller) by `self.call(&Call)`, in an `impl Controller`: `as_calls!(on_ack, set_cwnd);`.
#[macro_export]
macro_rules! as_calls {
    ($($method:ident),+) => {
        $($crate::as_calls!(@$method);)+
    };
    (@on_established) => {
        fn on_established(&mut self, now: ::bentpipe_profile::Time, rtt: Option<::bentpipe_profile::Nanos>) {
            self.call(&$crate::hook_trace::Call::Established { now, rtt });
        }
    };
    (@on_acked) => {
        fn on_acked(&mut self, ack: &$crate::AckSample) {
            self.call(&$crate::hook_trace::Call::Acked(*ack));
        }
    };
    (@on_ack) => {
        fn on_ack(&mut self, ack: &$crate::AckSample) {
            self.call(&$crate::hook_trace::Call::Ack(*ack));
        }
    };
    (@on_packet_lost) => {
        fn on_packet_lost(&mut self, lost: &$crate::LostPacket) {
            self.call(&$crate::hook_trace::Call::PacketLost(*lost));
        }
    };
    (@on_congestion) => {
        fn on_congestion(&mut self, now: ::bentpipe_profile::Time, event: $crate::Congestion, in_flight: ::bentpipe_profile::Bytes) {
            self.call(&$crate::hook_trace::Call::Congestion { now, event, in_flight });
        }
    };
    (@on_sent) => {
        fn on_sent(&mut self, now: ::bentpipe_profile::Time, in_flight: ::bentpipe_profile::Bytes, app_limited: bool) {
            self.call(&$crate::hook_trace::Call::Sent { now, in_flight, app_limited });
        }
    };
    (@on_path_hint) => {
        fn on_path_hint(&mut self, hint: &$crate::PathHint) {
            self.call(&$crate::hook_trace::Call::PathHint(*hint));
        }
    };
    (@set_cwnd) => {
        fn set_cwnd(&mut self, cwnd: ::bentpipe_profile::Bytes) {
            self.call(&$crate::hook_trace::Call::SetCwnd(cwnd));
        }
    };
    (@set_ssthresh) => {
        fn set_ssthresh(&mut self, ssthresh: ::bentpipe_profile::Bytes) {
            self.call(&$crate::hook_trace::Call::SetSsthresh(ssthresh));
        }
    };
}
