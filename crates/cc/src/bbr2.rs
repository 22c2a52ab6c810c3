//! BBR version 2: the implementation of version 3 ([`super::bbr3`]) with version 2's rules and values.
//!
//! Source: github.com/google/bbr, branch v2alpha, `net/ipv4/tcp_bbr2.c`. Differences from version 3: `STARTUP` and its window at 2.885; `PROBE_DOWN` at 0.75;
//! `PROBE_UP` ends once 1.25 BDPs are in flight, not at a plateau, and its window is not raised; eight ACKs that report losses end `STARTUP`, and set the long-term
//! bound to the BDP; a repaired tail loss does not count; an RTT as low as the minimum postpones `PROBE_RTT`.

use super::bbr3::Bbr3;
use super::bbr3::options::Options2;
use super::bbr3::params::Params;
use super::hints::Needs;
use super::registry::Entry;
use bentpipe_profile::tunables::OptionSet;

/// `bbr2` in the registry.
pub const ENTRY: Entry = Entry {
    name: "bbr2",
    status: "as google/bbr v2alpha",
    description: "first BBR that limits rate and inflight by losses, with the parameters of its kernel module",
    citation: "Cardwell et al., \"BBR v2\", IETF 104, 2019; github.com/google/bbr, branch v2alpha, net/ipv4/tcp_bbr2.c",
    needs: Needs::Nothing,
    options: Options2::SPECS,
    build: |config, values| Box::new(Bbr3::new(config, &Params::version_2(&Options2::read(values)))),
};
