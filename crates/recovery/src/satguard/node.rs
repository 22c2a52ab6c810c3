//! The elements of one node, where terminal, satellites and ground station are processes of their own that exchange packets in the wire format.
//!
//! Each node runs a network of its own with the hops that it sends on. At the node's end of a link stands the same element as in the simulator; it passes what
//! the node has to know to [`Notices`]: messages for the next satellite, and which packets' content it may still need.

use super::install::{hop_rtts, link_end, path_ends};
use super::notices::Notices;
use super::{Options, downstream::Run, label};
use crate::links::lossy_links;
use crate::overhead::Overhead;
use crate::wire::Fields;
use bentpipe_link::{Element, Packet, Role};
use bentpipe_profile::options::OptionValues;
use bentpipe_profile::tunables::{OptionError, OptionSet};
use bentpipe_profile::{Direction, Nanos, NetworkSpec};
use std::sync::Arc;

pub use super::label::{is_migrated, set_migrated};

/// How late real nodes may be: timers and holds are this much longer. Chosen here: as late as makes a Run of the emulator invalid.
const SLACK: Nanos = Nanos::from_millis(1);

/// The scheme of a node: which elements stand at its ends of links and paths.
#[derive(Clone, Debug)]
pub struct Node {
    spec: NetworkSpec,
    options: Options,
    overhead: Arc<Overhead>,
    notices: Notices,
}

impl Node {
    /// Create the scheme from the whole network, of which the node runs a part. `given`: the options that the user set.
    ///
    /// # Errors
    /// An option that the scheme does not have, or a value that it does not allow.
    pub fn new(spec: NetworkSpec, given: &OptionValues) -> Result<Self, OptionError> {
        let options = Options::read(&super::ENTRY.declared().check(given)?);
        Ok(Self { spec, options, overhead: Arc::default(), notices: Notices::default() })
    }

    /// Return the element at the start of a link's direction.
    #[must_use]
    pub fn link_end(&self, link: usize, direction: Direction) -> Box<dyn Element> {
        Box::new(link_end(&self.spec, link, direction, &self.options, SLACK, &self.overhead).at_node(self.notices.clone()))
    }

    /// Return ingress and egress of one direction of the first path; `None`: the scheme does not keep order.
    #[must_use]
    pub fn path_ends(&self, direction: Direction) -> Option<[Box<dyn Element>; 2]> {
        let links = lossy_links(&self.spec);
        let path = self.spec.paths().first().filter(|_| self.options.order && !links.is_empty())?;
        let rtt = hop_rtts(&self.spec, path, &links, direction, &self.options);
        Some(path_ends(path, rtt, &self.options, SLACK, &self.overhead))
    }

    /// Return whether packets carry a number in their flow.
    #[must_use]
    pub fn keeps_order(&self) -> bool {
        self.options.order && !lossy_links(&self.spec).is_empty()
    }

    /// Return the counters.
    #[must_use]
    pub const fn overhead(&self) -> &Arc<Overhead> {
        &self.overhead
    }

    /// Return the notices of the node's link ends.
    #[must_use]
    pub const fn notices(&self) -> &Notices {
        &self.notices
    }
}

/// Return the fields on the wire of a packet that a link's end has sent. `is_numbered`: it has a number in its flow.
#[must_use]
pub fn fields(packet: &Packet, is_numbered: bool) -> Fields {
    let run = label::hack(packet);
    Fields {
        hseq: (packet.role == Role::Copy).then(|| label::hseq(packet)),
        hack: (!run.is_empty()).then_some((run.first, run.last)),
        fseq: is_numbered.then(|| label::fseq(packet)),
        beam: 0,
    }
}

/// Write the fields of the wire into a packet that arrives over a link. One with a number on the hop is to be acknowledged.
pub fn set_fields(packet: &mut Packet, fields: &Fields) {
    label::set_hack(packet, fields.hack.map_or(Run::NONE, |(first, last)| Run { first, last }));
    label::set_fseq(packet, fields.fseq.unwrap_or_default());
    label::set_hseq(packet, fields.hseq.unwrap_or_default());
    if fields.hseq.is_some() && packet.role == Role::Host {
        packet.role = Role::Copy;
    }
}
