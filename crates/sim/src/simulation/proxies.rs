//! Proxies on the paths ([`bentpipe_recovery::mpep`]): packets leave the network at them. TCP ends there and begins anew, pings pass, and datagrams and QUIC pass
//! unless the proxy's state is on its way to the next satellite.

use super::hashes::{connection_of_quic, flow_of_datagram};
use super::{Simulation, index_u32};
use crate::connection::{Connection, Owner};
use crate::error::SimError;
use crate::proxy::Proxy;
use crate::transports::Transports;
use bentpipe_link::{DropCause, Ecn, Outcome, Packet};
use bentpipe_profile::{Bytes, Direction, Time};
use bentpipe_recovery::mpep::plan::Plan;
use bentpipe_recovery::overhead::Overhead;
use bentpipe_transport::{Arrival, Endpoint, TcpPacket};
use std::sync::Arc;

/// The proxies of all paths.
pub(super) struct Proxies {
    plan: Plan,
    /// For each path.
    moves: Vec<Move>,
    /// When a proxy's state leaves or arrives next; `Time::MAX`: never.
    wake: Time,
    overhead: Arc<Overhead>,
}

/// State of a satellite's proxy on its way to the next.
struct Move {
    /// Number of the next move in the plan.
    next: usize,
    /// When the state arrives; `Time::MAX`: none is on its way.
    until: Time,
    /// Packets that arrived meanwhile, with their stops.
    held: Vec<(usize, Packet)>,
}

impl Proxies {
    /// Create the proxies of a run that starts at `start`.
    pub(super) fn new(plan: Plan, start: Time, overhead: Arc<Overhead>) -> Self {
        let skip = |moves: &[Time]| moves.iter().take_while(|at| **at <= start).count();
        let moves = plan.paths.iter().map(|path| Move { next: skip(&path.moves), until: Time::MAX, held: Vec::new() });
        let mut proxies = Self { moves: moves.collect(), plan, wake: Time::MAX, overhead };
        proxies.update_wake();
        proxies
    }

    /// Return the number of proxies on a path.
    pub(super) fn on_path(&self, path: usize) -> usize {
        self.plan.paths[path].proxies()
    }

    /// Return when a proxy's state leaves or arrives next.
    pub(super) const fn wake_at(&self) -> Time {
        self.wake
    }

    fn update_wake(&mut self) {
        let paths = self.moves.iter().zip(&self.plan.paths);
        let times = paths.map(|(own, path)| own.until.min(path.moves.get(own.next).copied().unwrap_or(Time::MAX)));
        self.wake = times.min().unwrap_or(Time::MAX);
    }

    /// Whether the state of this proxy is on its way.
    pub(super) fn is_moving(&self, path: usize, stop: usize) -> bool {
        self.moves[path].until != Time::MAX && self.plan.paths[path].satellite == Some(stop)
    }
}

impl Connection {
    /// Return when a proxy of it has work, except those whose state is on its way.
    pub(super) fn proxies_wake_at(&self, proxies: Option<&Proxies>) -> Option<Time> {
        let path = self.path as usize;
        let at_rest = self.proxies.iter().enumerate().filter(|(stop, _)| proxies.is_some_and(|all| !all.is_moving(path, *stop)));
        at_rest.flat_map(|(_, proxy)| &proxy.sides).filter_map(Endpoint::wake_at).min()
    }
}

impl Simulation {
    /// Take the packets that have left the network at a proxy out of `outcomes`, and let the proxies process them.
    pub(super) fn take_stopped(&mut self, outcomes: &mut Vec<(Outcome, Packet)>) -> Result<(), Box<SimError>> {
        if self.proxies.is_none() {
            return Ok(());
        }
        let mut stopped = Vec::new();
        outcomes.retain(|(outcome, packet)| {
            let stop = self.network.stop_of(packet).filter(|_| *outcome == Outcome::Delivered);
            stopped.extend(stop.map(|stop| (stop, *packet)));
            stop.is_none()
        });
        let mut stopped = stopped.as_slice();
        while let Some(&(stop, packet)) = stopped.first() {
            let alike =
                |other: &(usize, Packet)| (other.0, other.1.flow_hash, other.1.direction) == (stop, packet.flow_hash, packet.direction);
            let (now, later) = stopped.split_at(stopped.iter().take_while(|other| alike(other)).count());
            stopped = later;
            self.pass_proxy(stop, now.iter().map(|(_, packet)| *packet), outcomes)?;
        }
        Ok(())
    }

    /// Let a proxy process packets of one flow that arrive one after the other. What finds no route is added to `outcomes`.
    fn pass_proxy(
        &mut self,
        stop: usize,
        packets: impl Iterator<Item = Packet>,
        outcomes: &mut Vec<(Outcome, Packet)>,
    ) -> Result<(), Box<SimError>> {
        let mut arrivals: Vec<Arrival<TcpPacket>> = Vec::new();
        let mut at = None;
        for packet in packets {
            let is_ping = self.pings.sender_of(&packet).is_some();
            let is_moving = self.proxies.as_ref().is_some_and(|proxies| proxies.is_moving(packet.path as usize, stop));
            if is_moving && !is_ping {
                if let Some(proxies) = &mut self.proxies {
                    proxies.moves[packet.path as usize].held.push((stop, packet));
                }
            } else if is_ping || flow_of_datagram(&packet, self.flows.len()).is_some() || connection_of_quic(&packet).is_some() {
                let onward = Packet { at: self.now, ..packet };
                if let Err(packet) = self.network.send_from(stop, onward) {
                    outcomes.push((Outcome::Dropped(DropCause::NoRoute), packet));
                }
            } else {
                if let Some(one_way) = &mut self.one_way {
                    one_way.forget(packet.body);
                }
                let content = self.payloads.take(packet.body);
                arrivals.extend(content.map(|content| Arrival { packet: content, ce: packet.ecn == Ecn::Ce }));
                at = Some((packet.flow_hash as usize, packet.direction));
            }
        }
        let Some((index, direction)) = at else { return Ok(()) };
        if let Some(connection) = &mut self.connections[index] {
            let side = usize::from(direction == Direction::Down);
            connection.proxies[stop].sides[side].on_packets(self.now, &arrivals, &[]);
            self.run_proxy(index, stop)?;
            self.schedule_timer(index);
        }
        Ok(())
    }

    /// Let a proxy pass on what has arrived, and send what it may send.
    pub(crate) fn run_proxy(&mut self, index: usize, stop: usize) -> Result<(), Box<SimError>> {
        let Some(connection) = self.connections[index].as_deref_mut() else { return Ok(()) };
        if self.proxies.as_ref().is_some_and(|proxies| proxies.is_moving(connection.path as usize, stop)) {
            return Ok(());
        }
        let streams = connection.random.child(&format!("proxy/{stop}/back"));
        let transports = match connection.owner {
            Owner::Flow { flow, .. } => &self.flows[flow].transports,
            Owner::Cross { source } => self.sources[source].transports(),
        };
        connection.proxies[stop].pass_on(self.now, || transports.proxy_sender(streams)).map_err(SimError::from)?;
        self.transmit_proxy(index, stop, 0);
        self.transmit_proxy(index, stop, 1);
        Ok(())
    }

    /// Send everything that a side of a proxy may send now.
    fn transmit_proxy(&mut self, index: usize, stop: usize, side: usize) {
        let now = self.now;
        let Some(connection) = self.connections[index].as_deref_mut() else { return };
        let (path, counted_as, owner) = (connection.path, connection.counted_as, connection.owner);
        let direction = Direction::BOTH[usize::from(side == 0)];
        let last = if direction == Direction::Up { connection.proxies.len() - 1 } else { 0 };
        while let Some(content) = connection.proxies[stop].sides[side].poll_transmit(now) {
            let (bytes, ecn) = (content.wire_bytes(), if content.is_ecn_capable() { Ecn::Ect } else { Ecn::NotEct });
            let body = self.payloads.put(content);
            if let (Some(one_way), Owner::Flow { flow, .. }) = (&mut self.one_way, owner)
                && stop == last
                && direction == self.flows[flow].direction()
            {
                one_way.pass_on(flow, index_u32(index), &content, body);
            }
            let packet = Packet::new(now, path, direction, counted_as, bytes, body);
            let packet = Packet { ecn, flow_hash: index_u32(index), ..packet };
            if self.network.send_from(stop, packet).is_err() {
                self.payloads.take(body);
                if let Some(one_way) = &mut self.one_way {
                    one_way.forget(body);
                }
            }
        }
    }

    /// Wake the proxies of a connection, except those whose state is on its way.
    pub(crate) fn wake_proxies(&mut self, index: usize, now: Time) -> Result<(), Box<SimError>> {
        let count = self.connections[index].as_ref().map_or(0, |connection| connection.proxies.len());
        for stop in 0..count {
            let Some(connection) = self.connections[index].as_deref_mut() else { break };
            if self.proxies.as_ref().is_some_and(|proxies| proxies.is_moving(connection.path as usize, stop)) {
                continue;
            }
            connection.proxies[stop].sides.iter_mut().for_each(|side| side.on_wake(now));
            self.run_proxy(index, stop)?;
        }
        Ok(())
    }

    /// Let the state of satellites' proxies leave at handovers, and arrive.
    pub(super) fn move_proxies(&mut self) -> Result<(), Box<SimError>> {
        let due = self.proxies.as_ref().filter(|proxies| proxies.wake <= self.now);
        let paths = due.map_or(0, |proxies| proxies.moves.len());
        for path in 0..paths {
            let Some(proxies) = &mut self.proxies else { break };
            let Some(satellite) = proxies.plan.paths[path].satellite else { continue };
            let moves = &proxies.plan.paths[path].moves;
            let own = &mut proxies.moves[path];
            let is_due = |own: &Move| moves.get(own.next).is_some_and(|at| *at <= self.now);
            if is_due(own) {
                while is_due(own) {
                    own.next += 1;
                }
                let on_path = self.connections.iter().flatten().filter(|connection| connection.path as usize == path);
                let held = on_path.filter_map(|connection| connection.proxies.get(satellite)).map(Proxy::held);
                let (count, data) = held.fold((0, 0), |(count, data), held| (count + 1, data + held.0));
                let (span, bytes) = proxies.plan.options.move_time(count, Bytes(data));
                own.until = self.now + span;
                proxies.overhead.migrated_bytes.add(bytes.0);
                proxies.overhead.migrated.add(count);
            } else if own.until <= self.now {
                own.until = Time::MAX;
                let (held, restarts) = (std::mem::take(&mut own.held), proxies.plan.options.restart);
                self.arrive(path, satellite, held, restarts)?;
            }
        }
        if let Some(proxies) = &mut self.proxies {
            proxies.update_wake();
        }
        Ok(())
    }

    /// Begin anew at the next satellite, with the packets that have arrived meanwhile.
    fn arrive(&mut self, path: usize, satellite: usize, held: Vec<(usize, Packet)>, restarts: bool) -> Result<(), Box<SimError>> {
        let now = self.now;
        let on_path = |connection: &Option<Box<Connection>>| connection.as_ref().is_some_and(|each| each.path as usize == path);
        let indices: Vec<usize> = (0..self.connections.len()).filter(|&index| on_path(&self.connections[index])).collect();
        for &index in &indices {
            let Some(connection) = self.connections[index].as_deref_mut() else { continue };
            let transports: &Transports = match connection.owner {
                Owner::Flow { flow, .. } => &self.flows[flow].transports,
                Owner::Cross { source } => self.sources[source].transports(),
            };
            for (side, tcp) in connection.proxies[satellite].sides.iter_mut().enumerate().filter(|_| restarts) {
                let streams = connection.random.child(&format!("proxy/{satellite}/{side}/{}", now.0));
                tcp.restart(now, transports.proxy_controller(streams).map_err(SimError::from)?);
            }
        }
        let mut lost = Vec::new();
        for (stop, packet) in held {
            self.pass_proxy(stop, std::iter::once(packet), &mut lost)?;
        }
        for &index in &indices {
            self.wake_proxies(index, now)?;
            self.schedule_timer(index);
        }
        self.take_datagrams(&mut lost)?;
        self.take_quic(&mut lost)
    }
}
