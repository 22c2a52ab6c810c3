//! The part of the event loop that runs the applications: it tells them what happened, and does what they want.

use crate::error::SimError;
use crate::simulation::Simulation;
use bentpipe_apps::timers::MAX_AT_ONCE;
use bentpipe_apps::{Action, Actions, ControllerChoice, Event, Mistake, Misuse, StreamId, Transport};
use bentpipe_profile::{Nanos, Time};
use bentpipe_transport::Endpoint;

impl Simulation {
    /// Start a flow when its time has come, and run its applications' timers that are due.
    pub(crate) fn run_timers(&mut self, flow: usize, now: Time) -> Result<(), Box<SimError>> {
        if !self.flows[flow].is_started && self.flows[flow].start <= now {
            self.flows[flow].is_started = true;
            for end in 0..2 {
                self.tell(flow, end, &Event::Started)?;
            }
        }
        for end in 0..2 {
            let mut timers = 0;
            while now < self.flows[flow].stop
                && let Some(timer) = self.flows[flow].ends[end].timers.take_due(now)
            {
                timers += 1;
                if timers > MAX_AT_ONCE {
                    return Err(self.refuse(flow, Mistake::Spinning).into());
                }
                self.tell(flow, end, &Event::Timer(timer))?;
            }
        }
        self.flows[flow].update_wake();
        Ok(())
    }

    /// Tell an application everything that happened at its end of a connection.
    pub(crate) fn run_events(&mut self, index: usize, end: usize) -> Result<(), Box<SimError>> {
        let now = self.run_time();
        while let Some(connection) = self.connections[index].as_mut() {
            let Some((flow, flow_end)) = connection.flow_end(end) else { break };
            let stream = &mut connection.streams[end];
            if stream.id.is_none() {
                stream.id = Some(self.flows[flow].ends[flow_end].accept(index_u32(index)));
            }
            let Some(event) = stream.next_event(now, &connection.ends[end]) else { break };
            if matches!(event, Event::Message { .. }) {
                self.flows[flow].outstanding -= 1;
            }
            if self.now < self.flows[flow].stop {
                self.tell(flow, flow_end, &event)?;
            }
            self.flows[flow].complete_if_finished(self.now);
        }
        Ok(())
    }

    /// Send what the applications wrote, and tell them what follows from it.
    pub(crate) fn flush(&mut self) -> Result<(), Box<SimError>> {
        while let Some((index, end)) = self.touched.pop_front() {
            if let Some(connection) = self.quic.open.get(&index) {
                let has_event = connection.has_event(end);
                self.transmit_quic(index, end);
                if has_event {
                    self.run_quic_events(index, end)?;
                }
            } else {
                self.transmit(index, end);
                let has_event = |connection: &crate::connection::Connection| connection.streams[end].has_event(&connection.ends[end]);
                if self.connections[index].as_deref().is_some_and(has_event) {
                    self.run_events(index, end)?;
                }
            }
            self.schedule_timer(index);
            self.remove_if_over(index);
        }
        Ok(())
    }

    /// Time since the start of the run.
    pub(crate) fn run_time(&self) -> Time {
        Time(self.now.since(self.start).0)
    }

    pub(crate) fn tell(&mut self, flow: usize, end: usize, event: &Event) -> Result<(), Box<SimError>> {
        let now = self.run_time();
        let flow_end = &mut self.flows[flow].ends[end];
        flow_end.app.on_event(now, event, &mut flow_end.actions);
        if !flow_end.actions.is_empty() {
            let mut actions = std::mem::take(&mut flow_end.actions);
            self.apply(flow, end, &mut actions)?;
            self.flows[flow].ends[end].actions = actions;
            self.flows[flow].complete_if_finished(self.now);
        }
        Ok(())
    }

    /// Return the error of a flow whose application asked for something impossible.
    pub(crate) fn refuse(&self, flow: usize, mistake: Mistake) -> SimError {
        Misuse::new(flow, &self.experiment.flows[flow].app, self.run_time(), mistake).into()
    }

    /// Return the number of a stream's connection.
    fn connection_of(&self, flow: usize, end: usize, stream: StreamId) -> Result<usize, Box<SimError>> {
        let number = self.flows[flow].ends[end].connection(stream).map(|number| number as usize);
        number.ok_or_else(|| self.refuse(flow, Mistake::UnknownStream(stream)).into())
    }

    /// Do what an application wants. What it writes is sent by [`Self::flush`].
    fn apply(&mut self, index: usize, end: usize, actions: &mut Actions) -> Result<(), Box<SimError>> {
        for action in actions.drain() {
            match action {
                Action::Open { controller, transport, .. } => self.open(index, end, controller.as_ref(), transport)?,
                Action::SetTimer { at, timer } => {
                    let flow = &mut self.flows[index];
                    flow.ends[end].timers.set(self.start + Nanos(at.0), timer);
                    flow.update_wake();
                    self.schedule_timer(index);
                }
                Action::Send(datagram) => self.send_datagram(index, end, datagram),
                Action::Record(item) => self.output.item(index, item),
                Action::Finish => self.flows[index].is_finishing = true,
                Action::Write(stream, message) => {
                    let number = self.connection_of(index, end, stream)?;
                    if self.quic.open.contains_key(&number) {
                        self.write_quic(number, end, stream, message)?;
                        continue;
                    }
                    let open = self.connections[number].as_mut().map(|connection| (connection.end_of(index, end), connection));
                    let Some((own, connection)) = open.filter(|(own, connection)| !connection.streams[*own].is_closed) else {
                        return Err(self.refuse(index, Mistake::ClosedStream(stream)).into());
                    };
                    let flow = &mut self.flows[index];
                    let transport = &mut connection.ends[own];
                    if !transport.has_sender() {
                        let sender = flow.transports.accepting_sender(end, connection.random);
                        transport.set_sender(sender.map_err(SimError::from)?);
                    }
                    transport.write(self.now, message.bytes);
                    flow.outstanding += 1;
                    flow.outstanding -= u64::from(connection.streams[own].on_written(&message));
                    flow.outstanding += u64::from(connection.streams[1 - own].expect(message));
                    self.touched.push_back((number, own));
                }
                Action::Close(stream) => {
                    let number = self.connection_of(index, end, stream)?;
                    if let Some(connection) = self.quic.open.get_mut(&number) {
                        let own = connection.end_of(end);
                        self.flows[index].outstanding -= connection.close(own);
                        self.touched.push_back((number, own));
                        continue;
                    }
                    let Some(connection) = self.connections[number].as_mut() else { continue }; // it is over
                    let own = connection.end_of(index, end);
                    let flow = &mut self.flows[index];
                    flow.outstanding -= connection.streams[own].close();
                    let transport = &mut connection.ends[own];
                    if !transport.has_sender() {
                        let sender = flow.transports.accepting_sender(end, connection.random);
                        transport.set_sender(sender.map_err(SimError::from)?);
                    }
                    transport.close();
                    self.touched.push_back((number, own));
                }
            }
        }
        Ok(())
    }

    /// Open a connection. The first one of a flow has the flow's number.
    fn open(&mut self, flow: usize, end: usize, controller: Option<&ControllerChoice>, transport: Transport) -> Result<(), Box<SimError>> {
        let index = if self.flows[flow].opened == 0 { flow } else { self.add_slot() };
        let refusal = |error| SimError::app_controller(flow, &self.experiment.flows[flow].app, error);
        match transport {
            Transport::Tcp => {
                let mut connection = self.flows[flow].connect(flow, end, self.now, controller).map_err(refusal)?;
                connection.ends[0].open(self.now);
                self.connections[index] = Some(Box::new(connection));
            }
            Transport::Quic => {
                let mut connection = self.flows[flow].connect_quic(flow, end).map_err(refusal)?;
                connection.ends[0].open();
                self.quic.open.insert(index, Box::new(connection));
            }
        }
        let before = self.flows[flow].connections.last().copied();
        self.flows[flow].connections.push(index_u32(index));
        self.flows[flow].ends[end].open(index_u32(index));
        if let Some(before) = before {
            self.remove_if_over(before as usize); // it was kept as the newest
        }
        self.touched.push_back((index, 0));
        Ok(())
    }

    /// Remove a connection once both ends have closed and everything is acknowledged. Its packets in the network are then ignored. The newest
    /// connection of a flow stays: samples show it.
    pub(crate) fn remove_if_over(&mut self, index: usize) {
        if let Some(connection) = self.quic.open.get(&index).filter(|connection| connection.is_over()) {
            let flow = &mut self.flows[connection.flow];
            if flow.connections.last() != Some(&index_u32(index)) {
                flow.remember(&connection.data_ends());
                flow.connections.retain(|&each| each as usize != index);
                self.quic.open.remove(&index);
                self.timer_due[index] = Time::MAX;
                if index < self.flows.len() {
                    self.schedule_timer(index); // the slot also has the flow's timers
                }
            }
            return;
        }
        let Some(connection) = self.connections[index].as_deref().filter(|connection| connection.is_over()) else { return };
        match connection.flow_end(0) {
            Some((flow, _)) => {
                let flow = &mut self.flows[flow];
                if flow.connections.last() == Some(&index_u32(index)) {
                    return;
                }
                flow.remember(&connection.data_ends());
                flow.connections.retain(|&each| each as usize != index);
            }
            None => self.record_transfer(index),
        }
        self.connections[index] = None;
        self.timer_due[index] = Time::MAX;
        if index < self.flows.len() {
            self.schedule_timer(index); // the slot also has the flow's timers
        }
    }

    /// Wake both ends of a connection and its proxies, and send what is due.
    pub(crate) fn wake_connection(&mut self, index: usize, now: Time) -> Result<(), Box<SimError>> {
        if let Some(connection) = self.connections[index].as_mut() {
            connection.ends.iter_mut().for_each(|end| end.on_wake(now));
            self.transmit(index, 1);
            self.transmit(index, 0);
        }
        self.wake_quic(index, now);
        self.wake_proxies(index, now)
    }
}

#[allow(clippy::cast_possible_truncation)] // far fewer than 2^32 connections
const fn index_u32(index: usize) -> u32 {
    index as u32
}
