//! Passages: repetitions of the Profile (`--at-end loop`). Packets enter the current passage; earlier ones may still hold packets.

use bentpipe_link::Network;
use bentpipe_link::windows::record_window;
use bentpipe_profile::run::Links;
use bentpipe_profile::{Nanos, Profile, Time};

/// One passage.
pub struct Passage {
    /// The link elements with their packets.
    pub network: Network,
    /// Relay time minus Profile time.
    pub shift: Nanos,
}

impl Passage {
    /// Profile time at the relay's `now`.
    pub const fn time(&self, now: Time) -> Time {
        Time(now.0 - self.shift.0)
    }

    fn wake_at(&self) -> Option<Time> {
        self.network.wake_at().map(|at| at + self.shift)
    }
}

/// See the module.
pub struct Passages {
    /// The passage that packets enter.
    pub current: Passage,
    earlier: Vec<Passage>,
}

impl Passages {
    /// Starts with the first passage.
    pub const fn new(network: Network) -> Self {
        Self { current: Passage { network, shift: Nanos(0) }, earlier: Vec::new() }
    }

    /// Starts a new passage: packets enter `network` from now on.
    pub fn restart(&mut self, network: Network, shift: Nanos) {
        let before = std::mem::replace(&mut self.current, Passage { network, shift });
        self.earlier.push(before);
        self.take_stats();
    }

    /// Number of passages that hold packets or accept them.
    pub const fn count(&self) -> usize {
        self.earlier.len() + 1
    }

    /// A passage by index, the earliest first.
    pub fn get_mut(&mut self, number: usize) -> &mut Passage {
        if number < self.earlier.len() { &mut self.earlier[number] } else { &mut self.current }
    }

    /// Removes earlier passages without packets.
    pub fn end_drained(&mut self) {
        if self.earlier.iter().any(|passage| passage.network.packets() == 0) {
            self.take_stats();
            self.earlier.retain(|passage| passage.network.packets() > 0);
        }
    }

    /// Next due time in any passage.
    pub fn wake_at(&self) -> Option<Time> {
        self.earlier.iter().chain([&self.current]).filter_map(Passage::wake_at).min()
    }

    /// Packets in all passages.
    pub fn packets(&self) -> usize {
        self.earlier.iter().chain([&self.current]).map(|passage| passage.network.packets()).sum()
    }

    /// Writes the `links` rows of the window that ends at the relay's `at`, summed over all passages.
    pub fn record_window(&mut self, profile: &Profile, role: &str, at: Time, t_s: f64, links: &mut Links) {
        self.take_stats();
        let time = self.current.time(at);
        record_window(&mut self.current.network, 0, profile, role, time, t_s, links);
        self.current.network.begin_window();
    }

    fn take_stats(&mut self) {
        self.earlier.iter_mut().for_each(|passage| self.current.network.take_stats(&mut passage.network));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_link::Packet;
    use bentpipe_profile::{
        Basis, Direction, Hop, HopDirection, NetworkSpec, Provenance, QueueDiscipline, QueueLimit, QueueSpec, RouteEntry, Series, Streams,
    };

    const MS: u64 = 1_000_000;

    /// One second of a path of 50 ms.
    fn profile() -> Profile {
        let side = HopDirection {
            delay: Series::constant(50 * MS),
            capacity: None,
            loss: None,
            jitter: None,
            queue: QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Packets(10) },
        };
        let hop = Hop { name: "air".to_owned(), shared_id: None, up: side.clone(), down: side };
        let provenance = Provenance {
            kind: "preset".to_owned(),
            description: String::new(),
            made_by: String::new(),
            seed: None,
            includes: vec![],
            recipe: ().into(),
        };
        let routes = vec![RouteEntry { at_ns: Time::ZERO, hops: vec![0] }];
        let (start, duration) = (bentpipe_profile::Utc(0), Nanos::from_secs(1));
        Profile::new("p".to_owned(), start, duration, Basis::OneWay, provenance, vec![hop], routes, vec![]).unwrap()
    }

    fn run(passages: &mut Passages, now: Time) {
        for number in 0..passages.count() {
            let passage = passages.get_mut(number);
            let time = passage.time(now);
            passage.network.run_until(time, &mut Vec::new());
        }
        passages.end_drained();
    }

    /// Two packets enter before the restart and leave after it, one in the restart's window and one later.
    #[test]
    fn links_include_packets_of_earlier_passages() {
        let profile = profile();
        let network = || Network::new(&NetworkSpec::from_profiles(&[&profile]).unwrap(), Streams::new(1)).unwrap();
        let packet = |at: u64| Packet::new(Time(at * MS), 0, Direction::Up, 0, 100, 0);
        let mut passages = Passages::new(network());
        for at in [970, 990] {
            passages.current.network.send(packet(at)).unwrap();
        }
        run(&mut passages, Time(1000 * MS));
        passages.restart(network(), Nanos(1000 * MS));
        passages.current.network.send(packet(5)).unwrap();
        let mut links = Links::default();
        for at in [1030, 1060] {
            run(&mut passages, Time(at * MS));
            passages.record_window(&profile, "path", Time(at * MS), at as f64 / 1e3, &mut links);
        }
        let rows = |column: &[u64]| -> Vec<u64> {
            (0..links.t_s.len()).filter(|&i| links.flow[i] == -1 && links.direction[i] == "up").map(|i| column[i]).collect()
        };
        assert_eq!((passages.count(), passages.packets()), (1, 0));
        assert_eq!(rows(&links.delivered_bytes), [100, 300]);
        assert_eq!(rows(&links.delay_n), [1, 2]);
    }
}
