//! Conversion between a network and one long table with JSON metadata: as for a Profile, with the links in place of the hops, and nodes and paths besides.

use crate::direction::Direction;
use crate::error::ProfileError;
use crate::event::Event;
use crate::hop::Hop;
use crate::network::NetworkSpec;
use crate::path::Path;
use crate::profile::{Basis, Provenance};
use crate::queue::QueueSpec;
use crate::table::{Columns, Table, content_hash};
use crate::topology::{LinkSpec, Topology};
use crate::units::{Nanos, Utc};
use serde::{Deserialize, Serialize};

/// Newest metadata format of networks that this build writes and reads.
pub const NETWORK_FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct LinkMeta {
    name: String,
    /// Its name in the Profiles of its paths; left out: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hop: Option<String>,
    shared_id: Option<String>,
    ends: [usize; 2],
    up_queue: QueueSpec,
    down_queue: QueueSpec,
}

#[derive(Serialize, Deserialize)]
struct Metadata {
    format: u32,
    name: String,
    start_unix_ns: Utc,
    duration_ns: Nanos,
    basis: Basis,
    provenance: Provenance,
    nodes: Vec<String>,
    /// The links. The table's column `hop` counts them.
    hops: Vec<LinkMeta>,
    events: Vec<Event>,
    paths: Vec<Path>,
}

/// Only the format number, to distinguish a newer file from a damaged one.
#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

impl NetworkSpec {
    /// Return the series of all links as one long table.
    #[must_use]
    pub fn to_table(&self) -> Table {
        Table::of(self.topology.links.iter().map(|link| &link.hop))
    }

    /// Return everything that is not a series, as JSON with a fixed order of keys.
    ///
    /// # Panics
    /// Never: the record holds nothing that JSON cannot.
    #[must_use]
    pub fn metadata_json(&self) -> String {
        let link = |link: &LinkSpec| LinkMeta {
            name: link.name.clone(),
            hop: (link.hop.name != link.name).then(|| link.hop.name.clone()),
            shared_id: link.hop.shared_id.clone(),
            ends: link.ends,
            up_queue: link.hop.up.queue,
            down_queue: link.hop.down.queue,
        };
        let meta = Metadata {
            format: NETWORK_FORMAT,
            name: self.name.clone(),
            start_unix_ns: self.start,
            duration_ns: self.duration,
            basis: self.basis,
            provenance: self.provenance.clone(),
            nodes: self.topology.nodes.clone(),
            hops: self.topology.links.iter().map(link).collect(),
            events: self.topology.events.clone(),
            paths: self.paths.clone(),
        };
        serde_json::to_string(&meta).expect("metadata is plain data")
    }

    /// Return the hex SHA-256 of metadata and table: two networks with one hash are the same.
    #[must_use]
    pub fn content_hash(&self) -> String {
        content_hash(&self.metadata_json(), &self.to_table())
    }

    /// Create a network from its table and metadata. Rows of one series must be in order of time; series may come in any order.
    ///
    /// # Errors
    /// As [`crate::Profile::from_table`], and everything that [`NetworkSpec::new`] refuses.
    pub fn from_table(metadata: &str, table: &Table) -> Result<Self, ProfileError> {
        let metadata_error = |e: serde_json::Error| ProfileError::Metadata { reason: e.to_string() };
        let FormatOnly { format } = serde_json::from_str(metadata).map_err(metadata_error)?;
        if format > NETWORK_FORMAT {
            return Err(ProfileError::NewerFormat { format, known: NETWORK_FORMAT });
        }
        let meta: Metadata = serde_json::from_str(metadata).map_err(metadata_error)?;
        let names: Vec<&str> = meta.hops.iter().map(|link| link.name.as_str()).collect();
        let columns = Columns::split(&names, meta.duration_ns, table)?;
        let link = |(i, link): (usize, &LinkMeta)| {
            let up = columns.side(i, &link.name, Direction::Up, link.up_queue)?;
            let down = columns.side(i, &link.name, Direction::Down, link.down_queue)?;
            let name = link.hop.clone().unwrap_or_else(|| link.name.clone());
            Ok(LinkSpec { name: link.name.clone(), ends: link.ends, hop: Hop { name, shared_id: link.shared_id.clone(), up, down } })
        };
        let links = meta.hops.iter().enumerate().map(link).collect::<Result<Vec<_>, ProfileError>>()?;
        let topology = Topology { nodes: meta.nodes, links, events: meta.events };
        Self::new(meta.name, meta.start_unix_ns, meta.duration_ns, meta.basis, meta.provenance, topology, meta.paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hop;
    use crate::{EventKind, Fate, Profile, RouteEntry, Series, Time};
    use proptest::prelude::*;

    fn sample() -> NetworkSpec {
        let profile = |name: &str, delay_ns| {
            let mut first = hop("user");
            first.up.delay = Series::linear("d", &[(Time(0), delay_ns), (Time(999_999_999), 4_123_457)]).unwrap();
            let event = Event {
                at_ns: Time(7),
                interruption_ns: Nanos(5),
                hop: 1,
                kind: EventKind::Outage,
                up: Fate::LOSSLESS,
                down: Fate::LOSSLESS,
            };
            let routes = vec![RouteEntry { at_ns: Time::ZERO, hops: vec![0, 1] }];
            let provenance = crate::testing::provenance();
            let hops = vec![first, hop("feeder")];
            Profile::new(name.to_owned(), Utc(9), Nanos::from_secs(60), Basis::OneWay, provenance, hops, routes, vec![event]).unwrap()
        };
        NetworkSpec::from_profiles(&[&profile("a", 3_000_001), &profile("b", 5)]).unwrap()
    }

    #[test]
    fn a_network_read_from_its_table_is_equal() {
        let network = sample();
        let back = NetworkSpec::from_table(&network.metadata_json(), &network.to_table()).unwrap();
        assert_eq!(network, back);
        assert_eq!(network.content_hash(), back.content_hash());
    }

    #[test]
    fn a_newer_format_is_refused_with_its_number() {
        let newer = sample().metadata_json().replacen("\"format\":1", "\"format\":2,\"surprise\":true", 1);
        let error = NetworkSpec::from_table(&newer, &sample().to_table()).unwrap_err();
        assert_eq!(error, ProfileError::NewerFormat { format: 2, known: NETWORK_FORMAT });
    }

    proptest! {
        /// Metadata with any octet changed, and any codes in the table, give a network or an error, never a panic.
        #[test]
        fn foreign_tables_never_panic(
            cut in 0_usize..5000,
            at in 0_usize..5000,
            octet in 32_u8..127,
            row in 0_usize..8,
            code in any::<u8>(),
            link in any::<u32>(),
            value in any::<f64>(),
        ) {
            let network = sample();
            let meta = network.metadata_json();
            let _ = NetworkSpec::from_table(&meta[..cut.min(meta.len())], &network.to_table());
            let mut octets = meta.clone().into_bytes();
            let at = at % octets.len();
            octets[at] = octet;
            let _ = NetworkSpec::from_table(&String::from_utf8(octets).unwrap(), &network.to_table());
            let mut table = network.to_table();
            let row = row % table.t_s.len();
            (table.kind[row], table.hop[row], table.value[row]) = (code, link, value);
            let _ = NetworkSpec::from_table(&meta, &table);
        }
    }
}
