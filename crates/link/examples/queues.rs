//! Benchmark of the queue disciplines: `queues [PACKETS]` prints nanoseconds per packet, the best of several rounds.
//!
//! Ten flows send 1500-byte packets at 110 % of 100 Mbit/s in bursts of five, so that every control law acts. All flows support ECN.

use bentpipe_link::packet::{Ecn, Packet};
use bentpipe_link::server::Server;
use bentpipe_link::{Element, Port};
use bentpipe_profile::{
    Bytes, Codel, Direction, FqCodel, Nanos, QueueDiscipline, QueueLimit, QueueSpec, Red, Series, Step, Time, keyed_u64,
};
use std::time::Instant;

const RATE_BPS: u64 = 100_000_000;
const BYTES: u32 = 1500;
const BURST: u64 = 5;
const ROUNDS: usize = 7;

fn disciplines() -> Vec<QueueDiscipline> {
    let codel = Codel { target_ns: Nanos::from_millis(5), interval_ns: Nanos::from_millis(100), ecn: true };
    vec![
        QueueDiscipline::DropTail,
        QueueDiscipline::Codel(codel),
        QueueDiscipline::FqCodel(FqCodel { codel, flows: 1024, quantum_bytes: 1514 }),
        QueueDiscipline::Red(Red {
            min: QueueLimit::TimeNs(Nanos::from_millis(5)),
            max: QueueLimit::TimeNs(Nanos::from_millis(15)),
            max_probability_ppb: 100_000_000,
            weight_log: 9,
            ecn: true,
        }),
        QueueDiscipline::Step(Step { threshold: QueueLimit::TimeNs(Nanos::from_millis(5)) }),
    ]
}

/// Send all packets through a queue in front of a capacity. Returns how many left it.
fn run(discipline: QueueDiscipline, packets: u64) -> u64 {
    let spec = QueueSpec { discipline, limit: QueueLimit::Bytes(Bytes(250_000)) };
    let mut server = Server::new(Some(Series::constant(RATE_BPS)), spec, 1);
    let burst_ns = BURST * u64::from(BYTES) * 8 * 1_000_000_000 / (RATE_BPS + RATE_BPS / 10);
    let mut left = 0;
    for n in 0..packets {
        let at = Time(n / BURST * burst_ns);
        while server.pop(at).is_some() {
            left += 1;
        }
        #[allow(clippy::cast_possible_truncation)] // below ten
        let flow = (keyed_u64(1, n) % 10) as u32;
        server.push(Port::Near, Packet { ecn: Ecn::Ect, ..Packet::new(at, 0, Direction::Down, flow, BYTES, 0) });
    }
    left
}

fn main() {
    let packets = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let disciplines = disciplines();
    let mut best = vec![f64::INFINITY; disciplines.len()];
    for _ in 0..ROUNDS {
        for (discipline, best) in disciplines.iter().zip(&mut best) {
            #[allow(clippy::disallowed_methods)] // a benchmark measures real time
            let start = Instant::now();
            assert!(run(*discipline, packets) > 0, "packets leave");
            *best = best.min(start.elapsed().as_secs_f64() * 1e9 / packets as f64);
        }
    }
    for (discipline, ns) in disciplines.iter().zip(best) {
        println!("{} {ns:.1}", discipline.name());
    }
}
