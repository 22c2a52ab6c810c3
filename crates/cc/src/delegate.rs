//! Forwarding of methods to an inner controller, for controllers that extend another one.

/// Forwards the named methods of `Controller` to a field: `delegate!(bbr: cwnd, ssthresh);` in an `impl Controller`. Other methods keep the trait's default.
macro_rules! delegate {
    ($to:ident: $($method:ident),+) => {
        $(delegate!(@$method $to);)+
    };
    (@on_established $to:ident) => {
        fn on_established(&mut self, now: bentpipe_profile::Time, rtt: Option<bentpipe_profile::Nanos>) {
            self.$to.on_established(now, rtt);
        }
    };
    (@on_ack $to:ident) => {
        fn on_ack(&mut self, ack: &$crate::AckSample) {
            self.$to.on_ack(ack);
        }
    };
    (@on_congestion $to:ident) => {
        fn on_congestion(&mut self, now: bentpipe_profile::Time, event: $crate::Congestion, in_flight: bentpipe_profile::Bytes) {
            self.$to.on_congestion(now, event, in_flight);
        }
    };
    (@on_sent $to:ident) => {
        fn on_sent(&mut self, now: bentpipe_profile::Time, in_flight: bentpipe_profile::Bytes, app_limited: bool) {
            self.$to.on_sent(now, in_flight, app_limited);
        }
    };
    (@on_path_hint $to:ident) => {
        fn on_path_hint(&mut self, hint: &$crate::PathHint) {
            self.$to.on_path_hint(hint);
        }
    };
    (@cwnd $to:ident) => {
        fn cwnd(&self) -> bentpipe_profile::Bytes {
            self.$to.cwnd()
        }
    };
    (@set_cwnd $to:ident) => {
        fn set_cwnd(&mut self, cwnd: bentpipe_profile::Bytes) {
            self.$to.set_cwnd(cwnd);
        }
    };
    (@ssthresh $to:ident) => {
        fn ssthresh(&self) -> bentpipe_profile::Bytes {
            self.$to.ssthresh()
        }
    };
    (@set_ssthresh $to:ident) => {
        fn set_ssthresh(&mut self, ssthresh: bentpipe_profile::Bytes) {
            self.$to.set_ssthresh(ssthresh);
        }
    };
    (@pacing_rate $to:ident) => {
        fn pacing_rate(&self) -> Option<bentpipe_profile::Rate> {
            self.$to.pacing_rate()
        }
    };
    (@next_departure $to:ident) => {
        fn next_departure(&self) -> Option<bentpipe_profile::Time> {
            self.$to.next_departure()
        }
    };
    (@on_knowledge $to:ident) => {
        fn on_knowledge(&mut self, knowledge: &$crate::knowledge::Knowledge<'_>) {
            self.$to.on_knowledge(knowledge);
        }
    };
    (@controls_recovery $to:ident) => {
        fn controls_recovery(&self) -> bool {
            self.$to.controls_recovery()
        }
    };
    (@sndbuf_factor $to:ident) => {
        fn sndbuf_factor(&self) -> u32 {
            self.$to.sndbuf_factor()
        }
    };
    (@min_tso_segments $to:ident) => {
        fn min_tso_segments(&self) -> Option<u32> {
            self.$to.min_tso_segments()
        }
    };
    (@max_rto $to:ident) => {
        fn max_rto(&self, now: bentpipe_profile::Time) -> Option<bentpipe_profile::Nanos> {
            self.$to.max_rto(now)
        }
    };
    (@observe $to:ident) => {
        fn observe(&self, probe: &mut dyn $crate::Probe) {
            self.$to.observe(probe);
        }
    };
}
