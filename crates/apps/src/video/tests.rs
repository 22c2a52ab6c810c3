//! Properties of players over a path whose bytes flow like water.

use super::Player;
use super::plan::STALL;
use super::rates::Rates;
use super::testing::spec;
use crate::testing::drive;
use crate::{Action, Actions, Event, Message, StreamId};
use bentpipe_profile::video::{Outlook, VideoPolicy, VideoSpec};
use bentpipe_profile::{Bytes, Time};
use proptest::prelude::*;

const WAIT_S: f64 = 0.04;
const CHUNKS: usize = 30;

/// Rates of a path, one for each second.
fn known(mbps: &[f64]) -> Outlook {
    let sums = mbps.iter().scan(0.0, |sum, each| {
        *sum += each * 1e6;
        Some(*sum)
    });
    let rates_bps = sums.enumerate().map(|(second, sum)| sum / (second as f64 + 1.0)).collect();
    Outlook { made_s: vec![0.0], horizons_s: (1..=mbps.len()).map(|second| second as f64).collect(), levels: vec![0.5], rates_bps }
}

/// What a player did: qualities, stalls [s], the buffer at each request [s].
struct Played {
    qualities: Vec<usize>,
    stalls_s: Vec<f64>,
    buffers_s: Vec<f64>,
    is_finished: bool,
}

impl Played {
    fn qoe(&self, spec: &VideoSpec) -> f64 {
        let mbps: Vec<_> = self.qualities.iter().map(|quality| spec.rates_bps[*quality] as f64 / 1e6).collect();
        let each = (1..mbps.len()).map(|chunk| mbps[chunk] - STALL * self.stalls_s[chunk] - (mbps[chunk] - mbps[chunk - 1]).abs());
        each.sum::<f64>() / (mbps.len() - 1) as f64
    }
}

fn play(spec: &VideoSpec, path: &Outlook) -> Played {
    let (mut app, mut actions, stream) = (Player::new(spec), Actions::default(), StreamId(0));
    let rates = Rates::of(path, 0, 0);
    let mut played = Played { qualities: vec![], stalls_s: vec![], buffers_s: vec![], is_finished: false };
    let mut next = vec![(0.0, Event::Started)];
    while let Some((at_s, event)) = next.pop() {
        let now = Time::from_secs_f64(at_s).unwrap();
        let before_s = app.buffer_s(now);
        if let Event::Message { first_byte, message, .. } = &event {
            let requested_s = first_byte.as_secs_f64() - WAIT_S;
            let stall_s = (at_s - requested_s - played.buffers_s.last().unwrap()).max(0.0);
            played.stalls_s.push(if message.id == 0 { 0.0 } else { stall_s });
            assert!(before_s >= 0.0);
        }
        for action in drive(&mut app, &mut actions, now.0, &event) {
            match action {
                Action::Open { .. } => next.push((at_s + WAIT_S, Event::Opened(stream))),
                Action::Write(_, message) => {
                    played.buffers_s.push(app.buffer_s(now));
                    let first_s = at_s + WAIT_S;
                    let done_s = first_s + rates.download_s(first_s, message.answer_bytes as f64);
                    let message = Message { bytes: Bytes(message.answer_bytes), id: message.id, answer_bytes: 0 };
                    next.push((done_s, Event::Message { stream, message, first_byte: Time::from_secs_f64(first_s).unwrap() }));
                }
                Action::SetTimer { at, timer } => next.push((at.as_secs_f64(), Event::Timer(timer))),
                Action::Record(item) => {
                    if let Some(kind) = item.kind {
                        played.qualities.push(kind.strip_prefix("chunk/").unwrap().parse().unwrap());
                    }
                }
                Action::Finish => played.is_finished = true,
                Action::Close(_) => {}
                Action::Send(_) => panic!("a player sends no datagrams"),
            }
        }
    }
    played
}

const BLIND: [VideoPolicy; 4] = [VideoPolicy::RobustMpc, VideoPolicy::Mpc, VideoPolicy::Buffer, VideoPolicy::Bola];

fn players(cap_s: f64, path: &Outlook) -> Vec<VideoSpec> {
    let seeing = [VideoPolicy::MpcForecast, VideoPolicy::MpcOracle].map(|policy| spec(CHUNKS, cap_s, policy, Some(path.clone())));
    BLIND.iter().map(|policy| spec(CHUNKS, cap_s, *policy, None)).chain(seeing).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn the_buffer_stays_between_nothing_and_its_cap_and_every_chunk_plays(mbps in prop::collection::vec(0.1..8.0f64, 240), cap_s in 4.0..60.0f64) {
        let path = known(&mbps);
        for spec in players(cap_s, &path) {
            prop_assert_eq!(spec.problem(), None);
            let played = play(&spec, &path);
            prop_assert!(played.is_finished && played.qualities.len() == CHUNKS);
            prop_assert!(played.buffers_s.iter().all(|buffer| (0.0..=cap_s + 1e-6).contains(buffer)));
        }
    }
}

#[test]
fn nothing_stalls_above_the_highest_rate() {
    let path = known(&[6.0; 200]);
    for cap_s in [12.0, 60.0] {
        for spec in players(cap_s, &path) {
            let played = play(&spec, &path);
            assert!(played.stalls_s.iter().sum::<f64>() < 1e-9, "{:?}", spec.policy);
        }
    }
}

#[test]
fn who_knows_the_rates_is_not_worse_on_average() {
    let mut draws = bentpipe_profile::Streams::new(7).stream("paths");
    let mut sums = std::collections::BTreeMap::<String, f64>::new();
    for _ in 0..12 {
        let mut level = 3.0;
        let mbps: Vec<f64> = (0..240)
            .map(|_| {
                level = (level * libm::exp(draws.normal() * 0.3)).clamp(0.2, 9.0);
                level
            })
            .collect();
        let path = known(&mbps);
        for spec in players(12.0, &path) {
            *sums.entry(format!("{:?}", spec.policy)).or_default() += play(&spec, &path).qoe(&spec);
        }
    }
    let oracle = sums["MpcOracle"];
    assert!(sums.values().all(|sum| *sum <= oracle), "{sums:?}");
}
