//! The part of the event loop that sends pings beside the flows: echo requests through the same network.
//!
//! Each request and its reply have the flow number after those of the flows, and a `flow_hash` that no connection has. Their `body` is the
//! request's number and no handle of a payload.

use super::{Simulation, index_u32};
use crate::pings::reply_to;
use bentpipe_apps::Item;
use bentpipe_link::{Outcome, Packet};
use bentpipe_profile::experiment::Experiment;
use bentpipe_profile::run::{FlowFacts, Ping, PingFate, PingSummary};
use bentpipe_profile::{Bytes, Direction, Nanos, Profile, Time};

/// The pings of an Experiment while it runs.
pub(super) struct Pings {
    senders: Vec<PingSender>,
    /// When the next request is sent; `Time::MAX`: none follows.
    pub(super) next: Time,
}

/// The echo requests over one path.
struct PingSender {
    request: Packet,
    every: Nanos,
    stop: Time,
    next: Time,
    /// Requests sent, by their numbers.
    sent: Vec<Ping>,
}

impl Pings {
    /// Prepare the pings of a checked Experiment; `offset`: start of the run on the Profile's clock.
    pub(super) fn new(experiment: &Experiment, offset: Time) -> Self {
        let end = offset + experiment.duration_ns;
        let senders = experiment.pings.iter().enumerate().map(|(i, spec)| {
            let next = offset + Nanos(spec.start_ns.0);
            let (path, flow) = (experiment.path_of(&spec.profile), experiment.flows.len() + i);
            let request = Packet::new(next, index_u32(path), Direction::Up, index_u32(flow), spec.bytes, 0);
            PingSender {
                request: Packet { flow_hash: u32::MAX - index_u32(i), ..request },
                every: spec.every_ns,
                stop: spec.stop_ns.map_or(end, |stop| end.min(offset + Nanos(stop.0))),
                next,
                sent: Vec::new(),
            }
        });
        let mut pings = Self { senders: senders.collect(), next: Time::MAX };
        pings.update_next();
        pings
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.senders.is_empty()
    }

    /// Return the index of the sender of a request or of its reply; `None`: it is a packet of a connection.
    pub(super) fn sender_of(&self, packet: &Packet) -> Option<usize> {
        Some((u32::MAX - packet.flow_hash) as usize).filter(|&index| index < self.senders.len())
    }

    /// Return the next request that is due at `now`.
    fn take_due(&mut self, now: Time) -> Option<Packet> {
        let sender = self.senders.iter_mut().find(|sender| sender.next <= now && sender.next < sender.stop)?;
        let request = Packet { at: now, hop_entered: now, entered: now, ..sender.request };
        sender.request.body += 1;
        sender.sent.push(Ping { sent: now, fate: PingFate::InFlight, path_ms: f64::NAN });
        sender.next = sender.next + sender.every;
        self.update_next();
        Some(request)
    }

    fn update_next(&mut self) {
        let waiting = self.senders.iter().filter(|sender| sender.next < sender.stop);
        self.next = waiting.map(|sender| sender.next).min().unwrap_or(Time::MAX);
    }
}

impl Simulation {
    /// Send the echo requests that are due.
    pub(super) fn send_pings(&mut self) {
        while let Some(request) = self.pings.take_due(self.now) {
            if let Err(packet) = self.network.send(request) {
                self.end_ping(&packet, None);
            }
        }
    }

    /// Take requests and replies out of the packets that left the network: answer the former, record the latter.
    pub(super) fn take_pings(&mut self, outcomes: &mut Vec<(Outcome, Packet)>) {
        outcomes.retain(|(outcome, packet)| {
            if self.pings.sender_of(packet).is_none() {
                return true;
            }
            self.packets += u64::from(*outcome == Outcome::Delivered);
            match (outcome, packet.direction) {
                (Outcome::Dropped(_), _) => self.end_ping(packet, None),
                (Outcome::Delivered, Direction::Down) => self.end_ping(packet, Some(packet.at)),
                (Outcome::Delivered, Direction::Up) => {
                    if let Err(reply) = self.network.send(reply_to(packet)) {
                        self.end_ping(&reply, None);
                    }
                }
            }
            false
        });
    }

    /// Record a request that was answered, or lost.
    fn end_ping(&mut self, packet: &Packet, answered: Option<Time>) {
        let Some(sender) = self.pings.sender_of(packet) else { return };
        self.pings.senders[sender].sent[packet.body as usize].fate =
            answered.map_or(PingFate::Lost, |at| PingFate::Answered(at.since(packet.entered)));
        let run_time = |at: Time| Time(at.since(self.start).0);
        let item = Item {
            id: u64::from(packet.body),
            kind: Some("ping".into()),
            start: Some(run_time(packet.entered)),
            first_byte: answered.map(run_time),
            completed: answered.map(run_time),
            bytes: Some(Bytes(u64::from(packet.bytes))),
        };
        self.output.item(packet.flow as usize, item);
    }

    /// Summarise the pings, one entry for each of the Experiment's.
    pub(super) fn ping_summaries(&self, flows: &[FlowFacts]) -> Vec<PingSummary> {
        let run = (self.start, self.end);
        let senders = self.experiment.pings.iter().zip(&self.pings.senders);
        senders
            .map(|(spec, sender)| {
                let path = &self.profiles[self.experiment.path_of(&spec.profile)];
                let pings = with_path_rtts(&sender.sent, path);
                PingSummary::of(&spec.profile, &self.experiment, flows, &self.output.tables.samples, run, &pings)
            })
            .collect()
    }
}

/// Return the pings with the RTT of a lone packet on their path; one that is answered after the path's end takes its last delay.
fn with_path_rtts(pings: &[Ping], path: &Profile) -> Vec<Ping> {
    let end_s = path.duration().as_secs_f64();
    let delays = |direction, times: &[f64]| path.lone_packet_delays_ms(direction, times).expect("times within the path");
    let sent: Vec<f64> = pings.iter().map(|ping| ping.sent.as_secs_f64().min(end_s)).collect();
    let up = delays(Direction::Up, &sent);
    let answered: Vec<f64> = sent.iter().zip(&up).map(|(at, up)| if up.is_nan() { *at } else { (at + up / 1e3).min(end_s) }).collect();
    let down = delays(Direction::Down, &answered);
    pings.iter().zip(up.iter().zip(down)).map(|(&ping, (up, down))| Ping { path_ms: up + down, ..ping }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunData;
    use crate::testing::{experiment, flow, handover_path, interrupted_path, outage};
    use bentpipe_profile::app::AppSpec;
    use bentpipe_profile::pings::PingSpec;
    use bentpipe_profile::run::LoadSummary;
    use bentpipe_profile::{Codel, FqCodel, QueueDiscipline, QueueRule};
    use std::sync::Arc;

    const S: u64 = 1_000_000_000;

    /// Pings each 50 ms beside a bulk flow downwards from `load.0` to `load.1` [s], on a run of 20 s.
    fn pinged(load: (u64, u64)) -> Experiment {
        let mut bulk = flow("cubic", Direction::Down, AppSpec::Bulk);
        (bulk.start_ns, bulk.stop_ns) = (Time(load.0 * S), Some(Time(load.1 * S)));
        let pings =
            PingSpec { profile: "path".to_owned(), every_ns: Nanos::from_millis(50), bytes: 84, start_ns: Time::ZERO, stop_ns: None };
        Experiment { pings: vec![pings], ..experiment(20, 7, vec![bulk]) }
    }

    fn run(experiment: Experiment, path: &Arc<Profile>) -> RunData {
        let mut simulation = Simulation::new(experiment, vec![path.clone()]).expect("a valid experiment");
        while simulation.run_until(Nanos::from_secs(3600)).unwrap() {}
        simulation.finish()
    }

    /// Return the RTTs of the requests in the order of their numbers [ns, rounded]; `None`: lost.
    fn rtts(data: &RunData) -> Vec<Option<u64>> {
        let table = &data.tables.applications;
        let mut rows: Vec<usize> = (0..table.flow.len()).filter(|&row| table.kind[row] == "ping").collect();
        rows.sort_by_key(|&row| table.id[row]);
        assert!(rows.iter().enumerate().all(|(number, &row)| table.id[row] == number as u64 && table.flow[row] == 1));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // far below 2^53 ns
        let rtt = |row: usize| ((table.completed_s[row] - table.start_s[row]) * 1e9).round() as u64;
        rows.into_iter().map(|row| table.completed_s[row].is_finite().then(|| rtt(row))).collect()
    }

    fn load<'a>(data: &'a RunData, name: &str) -> &'a LoadSummary {
        data.summary.pings[0].loads.iter().find(|each| each.load == name).expect("this load occurs")
    }

    #[test]
    fn an_idle_rtt_is_twice_the_delay_and_the_time_on_the_links() {
        // 5 + 10 ms each way; 84 bytes take 33.6 µs at 20 Mbit/s each way.
        let data = run(pinged((18, 20)), &handover_path(20, 0));
        assert_eq!(rtts(&data)[..20], [Some(30_067_200); 20]);
        let idle = load(&data, "idle");
        assert_eq!((idle.sent, idle.lost, idle.rtt_p50_ms), (360, 0, Some(38.0448))); // on the second satellite
        assert!(idle.down_bps < 1e-9 && idle.up_bps < 1e-9);
        // Over the delay of each satellite the time on the links remains.
        assert!(idle.excess_p50_ms.unwrap() > 0.0 && idle.excess_p95_ms.unwrap() < 0.1, "{idle:?}");
    }

    #[test]
    fn idle_pings_are_those_of_a_prober_without_flows() {
        let path = handover_path(20, 20_000_000); // 2 % on each of two hops, each way; one handover
        let own = rtts(&run(pinged((18, 20)), &path));
        let sent: Vec<f64> = (0..360).map(|i| f64::from(i) * 0.05).collect();
        let alone: Vec<_> = crate::ping(&path, &sent, 84, 7).unwrap().into_iter().map(|rtt| rtt.map(|t| t.0)).collect();
        assert_eq!(own[..350], alone[..350]);
        assert!((5..40).contains(&alone.iter().filter(|rtt| rtt.is_none()).count()));
    }

    #[test]
    fn requests_on_their_way_at_the_end_are_sent_and_neither_lost_nor_answered() {
        // An RTT of 38 ms on the second satellite: the request sent 10 ms before the end has no reply yet.
        for (start_ms, in_flight) in [(990, 1), (1000, 0)] {
            let mut experiment = pinged((6, 12));
            experiment.pings[0].start_ns = Time(start_ms * 1_000_000);
            let data = run(experiment, &handover_path(20, 0));
            let (pings, idle) = (&data.summary.pings[0], load(&data, "idle"));
            assert_eq!((pings.sent, pings.lost, pings.in_flight), (380 + in_flight, 0, in_flight));
            assert_eq!(idle.in_flight, in_flight);
            assert_eq!(rtts(&data).len(), 380);
        }
    }

    #[test]
    fn load_raises_the_rtt_by_the_queue_and_a_fair_queue_prevents_it() {
        let path = handover_path(20, 0);
        let tail = run(pinged((6, 18)), &path);
        // 30 Mbit/s, 100 packets of 1500 bytes: 40 ms.
        let down = load(&tail, "down");
        let idle_ms = 38.0448; // of the second satellite
        let rise = down.rtt_p95_ms.unwrap() - idle_ms;
        assert!((25.0..=41.0).contains(&rise), "{rise}");
        assert!(down.down_bps > 25e6 && down.up_bps < 1e-9 && (down.duration_s - 10.0).abs() < 1e-9, "{down:?}");
        let codel = Codel { target_ns: Nanos::from_millis(5), interval_ns: Nanos::from_millis(100), ecn: false };
        let fq_codel = QueueDiscipline::FqCodel(FqCodel { codel, flows: 1024, quantum_bytes: 1514 });
        let rule = QueueRule { profile: None, hop: None, direction: None, discipline: fq_codel, limit: None };
        let fair = run(Experiment { queues: vec![rule], ..pinged((6, 18)) }, &path);
        let rise = load(&fair, "down").rtt_p95_ms.unwrap() - idle_ms;
        assert!(rise < 2.0, "{rise}");
    }

    #[test]
    fn pings_are_lost_while_there_is_no_route() {
        let path = interrupted_path(20, [2, 5], vec![outage([2, 5])]);
        let data = run(pinged((18, 20)), &path);
        let rtts = rtts(&data);
        let lost: Vec<usize> = (0..rtts.len()).filter(|&number| rtts[number].is_none()).collect();
        let during: Vec<usize> = lost.iter().copied().filter(|&number| number < 360).collect(); // before the flow
        assert_eq!(during, (40..100).collect::<Vec<_>>());
        assert_eq!(data.summary.pings[0].lost, lost.len() as u64);
        assert_eq!((load(&data, "idle").sent, load(&data, "idle").lost), (360, 60));
    }

    #[test]
    fn a_run_with_pings_does_not_depend_on_its_slices() {
        let path = handover_path(20, 1_000_000);
        let whole = run(pinged((6, 18)), &path);
        let mut sliced = Simulation::new(pinged((6, 18)), vec![path.clone()]).unwrap();
        let mut until = Nanos::from_millis(37);
        while sliced.run_until(until).unwrap() {
            until += Nanos::from_millis(37);
        }
        assert_eq!(whole.content_hash(), sliced.finish().content_hash());
        let links = &whole.tables.links;
        assert!(links.flow.contains(&1) && links.flow.iter().all(|&flow| (-1..=1).contains(&flow)));
    }

    #[test]
    fn pings_of_an_unknown_profile_are_refused() {
        let mut experiment = pinged((6, 18));
        experiment.pings[0].profile = "elsewhere".to_owned();
        let error = Simulation::new(experiment, vec![handover_path(20, 0)]).err().expect("must be refused").to_string();
        assert!(error.starts_with("experiment: pings[0].profile: elsewhere"), "{error}");
    }
}
