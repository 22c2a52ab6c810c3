//! The hop of one satellite and gateway: its slots, as series over the Profile's time.

use super::capacity;
use super::error::AccessError;
use super::grants;
use super::legs::{self, interpolate};
use super::loss;
use super::params::AccessParams;
use super::queueing::{self, Hump};
use super::slots::{SlotDraw, SlotSource};
use super::wait_factor::WaitFactor;
use crate::schedule::{Serving, ServingSchedule, ServingSlot, SlotGrid};
use bentpipe_profile::rng::Stream;
use bentpipe_profile::{
    Bytes, Direction, Hop, HopDirection, Interpolation, JitterSeries, Nanos, QueueDiscipline, QueueLimit, QueueSpec, Series, Time,
};

/// A hop: a satellite, a gateway, and the slots in which they serve the terminal.
pub(super) struct SpaceHop<'a> {
    pub name: String,
    pub passes: Vec<Pass<'a>>,
    pub duration_ns: u64,
}

/// One slot of a hop. Unix times are nanoseconds since 1970; the others are since the Profile's start.
pub(super) struct Pass<'a> {
    draw: SlotDraw,
    source: SlotSource<'a>,
    /// The part of the slot inside the Profile.
    start_ns: u64,
    end_ns: u64,
    /// The whole slot.
    begin_unix_ns: i64,
    end_unix_ns: i64,
    /// Random values of the next slot.
    next: SlotDraw,
    profile_unix_ns: i64,
    /// One-way propagation [ns] over the Profile's time.
    propagation: Vec<(u64, f64)>,
    /// Elevation [deg] over the Profile's time.
    elevation: Vec<(u64, f64)>,
    altitude_km: f64,
}

impl<'a> Pass<'a> {
    /// Build the pass of a slot.
    pub fn new(
        number: usize,
        slot: &ServingSlot,
        serving: &Serving,
        draw: SlotDraw,
        source: &SlotSource<'a>,
        grid: SlotGrid,
        schedule: &ServingSchedule,
    ) -> Result<Self, AccessError> {
        let propagation = legs::propagation(number, slot, serving)?;
        let elevation = propagation.iter().zip(&serving.elevation_deg).map(|(p, &deg)| (p.0, deg)).collect();
        let end_unix_ns = grid.start_of(draw.number + 1).0;
        Ok(Self {
            source: *source,
            start_ns: slot.start_ns,
            end_ns: slot.end_ns,
            begin_unix_ns: grid.start_of(draw.number).0,
            end_unix_ns,
            next: source.draw(draw.number + 1),
            profile_unix_ns: schedule.start_unix_ns,
            propagation,
            elevation,
            altitude_km: capacity::altitude_km(serving.user_leg_km[0], serving.elevation_deg[0]),
            draw,
        })
    }

    /// Return the stream called `name` of the slot and a direction.
    fn stream(&self, name: &str, direction: Direction) -> Stream {
        self.source.stream(&format!("{name}/{}", direction.name()), self.draw.number)
    }

    /// Convert a Unix time to the Profile's time. A time before its start becomes its start.
    fn since_start(&self, unix_ns: i64) -> u64 {
        u64::try_from(unix_ns - self.profile_unix_ns).unwrap_or(0)
    }

    /// Return start and end of the whole slot as unsigned Unix times (the schedule starts after 1970).
    fn span_unix(&self) -> (u64, u64) {
        (u64::try_from(self.begin_unix_ns).unwrap_or(0), u64::try_from(self.end_unix_ns).unwrap_or(0))
    }

    /// Return the end of the interruption by the slot's reconfiguration; `None`: there is none.
    fn open_unix(&self, direction: Direction) -> Option<u64> {
        let interruption_ns = u64::try_from(self.draw.interruption_of(direction)).unwrap_or(0);
        (interruption_ns > 0).then(|| self.span_unix().0.saturating_add(interruption_ns))
    }

    /// Cut stepped points over the whole slot to the part inside the Profile.
    fn cut(&self, points: &[(u64, u64)]) -> impl Iterator<Item = (Time, u64)> {
        let profile = u64::try_from(self.profile_unix_ns).unwrap_or(0);
        let from = profile + self.start_ns;
        let first = points.partition_point(|p| p.0 <= from).saturating_sub(1);
        let (start, end) = (self.start_ns, self.end_ns);
        points[first..].iter().map(move |p| (Time(p.0.saturating_sub(profile).max(start)), p.1)).take_while(move |p| p.0.0 < end)
    }

    /// Draw the grant schedule of a direction [ns since 1970].
    fn closures(&self, params: &AccessParams, direction: Direction) -> Vec<(i64, i64)> {
        let (g, load) = (&params.delay.grants, self.draw.load);
        let (from, until, frames) = (self.begin_unix_ns, self.end_unix_ns, self.draw.period_frames);
        let mut stream = self.stream("grants", direction);
        let used = match direction {
            Direction::Up => {
                let wait_factor = self.wait_factor(params);
                let wait_ms = |at: i64| g.up_wait_ms * load * wait_factor.at(u64::try_from(at).unwrap_or(0));
                grants::used(&mut stream, from, until, frames, wait_ms)
            }
            Direction::Down => grants::used(&mut stream, from, until, frames, |_| g.down_wait_ms * load),
        };
        let next_open_unix_ns = self.end_unix_ns + self.next.interruption_of(direction);
        grants::closures(self.begin_unix_ns, self.draw.interruption_of(direction), &used, next_open_unix_ns)
    }

    /// Draw the factor of the uplink's waiting time. Its stream is named `unrest`, which keeps the draws of published seeds.
    fn wait_factor(&self, params: &AccessParams) -> WaitFactor {
        WaitFactor::draw(
            &mut self.stream("unrest", Direction::Up),
            &params.delay.wait_factor,
            self.span_unix(),
            self.open_unix(Direction::Up),
        )
    }

    fn wander(&self, params: &AccessParams) -> Vec<(u64, f64)> {
        let mut stream = self.stream("wander", Direction::Up);
        queueing::wander(&mut stream, &params.delay.wander, self.draw.load, &self.wait_factor(params), self.span_unix())
    }

    fn humps(&self, params: &AccessParams) -> Vec<Hump> {
        let (from, until) = self.span_unix();
        queueing::humps(&mut self.stream("humps", Direction::Up), &params.delay.queue, self.draw.load, from, until)
    }
}

impl SpaceHop<'_> {
    /// Build the hop with its random processes.
    pub fn build(&self, params: &AccessParams) -> Result<Hop, AccessError> {
        let side = |direction| -> Result<HopDirection, AccessError> {
            let limit = match direction {
                Direction::Up => params.capacity.up.queue_bytes,
                Direction::Down => params.capacity.down.queue_bytes,
            };
            Ok(HopDirection {
                delay: self.delay(params, direction)?,
                capacity: Some(self.capacity(params, direction)?),
                loss: Some(self.loss(params, direction)?),
                jitter: Some(self.jitter(params, direction)?),
                queue: QueueSpec { discipline: QueueDiscipline::DropTail, limit: QueueLimit::Bytes(Bytes(limit)) },
            })
        };
        Ok(Hop { name: self.name.clone(), shared_id: None, up: side(Direction::Up)?, down: side(Direction::Down)? })
    }

    fn series_name(&self, direction: Direction, kind: &str) -> String {
        format!("{}/{}/{kind}", self.name, direction.name())
    }

    /// Iterate over runs of consecutive slots. Within a run the delay is continuous; between runs the hop is not in use.
    fn runs(&self) -> impl Iterator<Item = &[Pass<'_>]> {
        self.passes.chunk_by(|a, b| a.end_ns == b.start_ns)
    }

    fn delay(&self, params: &AccessParams, direction: Direction) -> Result<Series, AccessError> {
        let (mut times, mut values, mut valid) = (Vec::new(), Vec::new(), Vec::new());
        for run in self.runs() {
            let end_ns = run[run.len() - 1].end_ns;
            let line = run_delay(run, params, direction);
            for (at, delay_ns) in line {
                times.push(Time(at));
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a positive delay of seconds at most
                values.push(delay_ns.max(0.0).round() as u64);
                valid.push(at < end_ns || end_ns == self.duration_ns);
            }
        }
        Ok(Series::new(&self.series_name(direction, "delay_s"), Interpolation::Linear, times, values, valid)?)
    }

    fn jitter(&self, params: &AccessParams, direction: Direction) -> Result<JitterSeries, AccessError> {
        let mut out: Vec<(Time, Nanos)> = Vec::new();
        for pass in &self.passes {
            for (from_unix, release_unix) in pass.closures(params, direction) {
                let (from, release) = (pass.since_start(from_unix), pass.since_start(release_unix));
                // A closure beyond the slot's end overlaps with the next slot's interruption.
                let from = out.last().map_or(from, |last| from.max(last.0.0 + 1));
                if from < release && from <= self.duration_ns {
                    out.push((Time(from), Nanos(release - from)));
                }
            }
        }
        Ok(JitterSeries::new(&self.series_name(direction, "jitter_s"), &out)?)
    }

    fn capacity(&self, params: &AccessParams, direction: Direction) -> Result<Series, AccessError> {
        let c = &params.capacity;
        let side = if direction == Direction::Up { &c.up } else { &c.down };
        let points: Vec<_> = self
            .passes
            .iter()
            .flat_map(|pass| {
                let efficiency = |unix_ns: u64| {
                    let at = unix_ns.saturating_sub(u64::try_from(pass.profile_unix_ns).unwrap_or(0));
                    capacity::efficiency(interpolate(&pass.elevation, at), pass.altitude_km, c.zenith_snr_db)
                };
                let mut stream = pass.stream("capacity", direction);
                let steps = capacity::steps(&mut stream, c, side, pass.draw.common_load, pass.span_unix(), efficiency);
                pass.cut(&steps).collect::<Vec<_>>()
            })
            .collect();
        Ok(Series::steps(&self.series_name(direction, "capacity_bps"), &points)?)
    }

    fn loss(&self, params: &AccessParams, direction: Direction) -> Result<Series, AccessError> {
        let side = if direction == Direction::Up { &params.loss.up } else { &params.loss.down };
        let mut points: Vec<(Time, u64)> = Vec::new();
        for run in self.runs() {
            for pass in run {
                let edges = (pass.open_unix(direction), pass.next.interruption_of(direction) > 0);
                let mut stream = pass.stream("loss", direction);
                let steps = loss::steps(&mut stream, &params.loss, side, pass.draw.common_load, pass.span_unix(), edges);
                points.extend(pass.cut(&steps));
            }
            // Packets still in flight after a handover must not stay in this hop's last episode.
            if points.last().is_some_and(|last| last.1 > 0) {
                points.push((Time(run[run.len() - 1].end_ns), 0));
            }
        }
        Ok(Series::steps(&self.series_name(direction, "loss_probability"), &points)?)
    }
}

/// Return the one-way delay over consecutive slots `(ns of the Profile, ns)`: propagation, half the site's offset, and on the uplink the queueing delay.
fn run_delay(run: &[Pass<'_>], params: &AccessParams, direction: Direction) -> Vec<(u64, f64)> {
    let (start_ns, end_ns) = (run[0].start_ns, run[run.len() - 1].end_ns);
    let mut base: Vec<(u64, f64)> = run.iter().flat_map(|pass| pass.propagation.iter().copied()).collect();
    base.dedup_by_key(|point| point.0); // a slot's last sample is the next one's first
    let extra: Vec<(u64, f64)> = match direction {
        Direction::Up => {
            let profile_unix = u64::try_from(run[0].profile_unix_ns).unwrap_or(0);
            let offsets: Vec<_> = run.iter().map(|pass| (profile_unix + pass.start_ns, pass.draw.offset_ns)).collect();
            let mut humps: Vec<Hump> = run.iter().flat_map(|pass| pass.humps(params)).collect();
            humps.sort_by_key(|hump| hump.start_ns);
            let wander: Vec<_> = run.iter().flat_map(|pass| pass.wander(params)).collect();
            let line = queueing::polyline(&offsets, &humps, &wander, profile_unix + end_ns);
            line.into_iter().map(|(at, ns)| (at - profile_unix, ns)).collect()
        }
        Direction::Down => vec![(start_ns, 0.0)],
    };
    let constant = params.delay.site_offset_ms / 2.0 * 1e6;
    let mut times: Vec<u64> = base.iter().chain(&extra).map(|point| point.0).collect();
    times.sort_unstable();
    times.dedup();
    times.into_iter().map(|at| (at, interpolate(&base, at) + interpolate(&extra, at) + constant)).collect()
}
