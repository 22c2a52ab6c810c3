//! One end of a flow: its application, in a thread of its own, with the sockets of its streams.

use super::stream::{CHUNK, Stream};
use super::{Failure, Progress};
use crate::clock::Clock;
use bentpipe_apps::timers::{MAX_AT_ONCE, Timers};
use bentpipe_apps::{Action, Actions, App, ControllerChoice, Event, Message, Mistake, Misuse, StreamId, Transport};
use bentpipe_profile::app::AppSpec;
use bentpipe_profile::{Nanos, Time};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use socket2::Socket;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait before the flow's end is checked.
const MAX_WAIT: Nanos = Nanos::from_millis(50);

/// The listener in `epoll`. Streams have their number there.
const LISTENER: u64 = u64::MAX;

/// Most sockets that are served between two looks at the timers. Chosen here.
const MAX_READY: usize = 64;

/// What an end needs to know of its flow.
pub struct Setting {
    /// Its application.
    pub app: AppSpec,
    /// Congestion controller of the connections that it opens.
    pub controller: String,
    /// Where the other end listens.
    pub peer: SocketAddr,
    /// The path's clock.
    pub clock: Clock,
    /// Beginning of the run, and start and stop of the flow.
    pub begin: Time,
    pub start: Time,
    pub stop: Time,
    /// Whether it receives the flow's data.
    pub receives: bool,
    /// Progress of the flow.
    pub progress: Arc<Progress>,
}

/// See the module.
pub struct End {
    app: Box<dyn App>,
    actions: Actions,
    timers: Timers,
    listener: Socket,
    /// Waits for the listener and the streams.
    epoll: Epoll,
    ready: [EpollEvent; MAX_READY],
    streams: BTreeMap<StreamId, Stream>,
    /// Streams that this end has opened, and accepted.
    opened: u32,
    accepted: u32,
    /// Streams whose connection timed out, and that the application has not closed.
    lost: BTreeSet<StreamId>,
    /// How many answers this end has been asked for and has not written, by stream and number.
    owed: BTreeMap<(StreamId, u64), u32>,
    setting: Setting,
    chunk: Vec<u8>,
    /// Whether the flow has stopped.
    is_stopped: bool,
}

/// Return the error of an application that wants what the kernel's races have not.
fn unsupported(problem: &str) -> Failure {
    let problem = format!("{problem}; expected none: on the kernel applications have TCP connections alone");
    Failure::Socket(io::Error::new(ErrorKind::Unsupported, problem))
}

impl End {
    /// Create an end that accepts connections from `listener`.
    ///
    /// # Errors
    /// A socket that fails.
    pub fn new(app: Box<dyn App>, listener: Socket, setting: Setting) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        Ok(Self {
            app,
            actions: Actions::default(),
            timers: Timers::default(),
            listener,
            epoll,
            ready: [EpollEvent::empty(); MAX_READY],
            streams: BTreeMap::new(),
            opened: 0,
            accepted: 0,
            lost: BTreeSet::new(),
            owed: BTreeMap::new(),
            setting,
            chunk: vec![0; CHUNK],
            is_stopped: false,
        })
    }

    /// Run from the flow's start to its stop, and then read the rest until the process ends.
    ///
    /// # Errors
    /// A connection that is refused or reset; an application that asks for something impossible.
    pub fn run(&mut self) -> Result<(), Failure> {
        self.setting.clock.sleep_until(self.setting.start);
        self.tell(&Event::Started)?;
        loop {
            let now = self.setting.clock.now();
            if now >= self.setting.stop {
                break;
            }
            self.run_timers(now)?;
            let now = self.setting.clock.now();
            let until = self.timers.next().map_or(Time::MAX, |at| self.setting.begin + Nanos(at.0)).min(self.setting.stop);
            self.wait(until.since(now).min(MAX_WAIT))?;
        }
        self.is_stopped = true;
        for stream in self.streams.values_mut() {
            stream.stop()?;
        }
        self.streams.retain(|_, stream| !stream.is_connecting() && !stream.is_over());
        // The other end may still open a connection: without a listener the kernel would reset it.
        loop {
            self.wait(MAX_WAIT)?;
        }
    }

    /// Run the timers that are due at `now`, but serve the sockets after [`MAX_AT_ONCE`] of them. One that is due later waits until then, too.
    ///
    /// All of them are run at `now`, as at one instant of the simulator: a timer set to it is due at once, and more than [`MAX_AT_ONCE`] that
    /// are due no later than one before are refused. A thread that is late has many timers to run, but each is due later than the one before.
    fn run_timers(&mut self, now: Time) -> Result<(), Failure> {
        let run_time = self.run_time(now);
        let (mut latest, mut at_once) = (Time::ZERO, 0);
        for count in 0.. {
            let Some(due) = self.timers.next() else { break };
            if due > latest {
                if count >= MAX_AT_ONCE {
                    break;
                }
                (latest, at_once) = (due, 0);
            }
            let Some(timer) = self.timers.take_due(run_time) else { break };
            at_once += 1;
            if at_once > MAX_AT_ONCE {
                return Err(self.refuse(Mistake::Spinning));
            }
            self.tell_at(now, &Event::Timer(timer))?;
        }
        Ok(())
    }

    /// Wait for the sockets, and handle what happens.
    fn wait(&mut self, most: Nanos) -> Result<(), Failure> {
        for stream in self.streams.values_mut() {
            stream.watch(&self.epoll)?;
        }
        // `epoll_wait` counts in milliseconds.
        let mut waited = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut waited, Some(TimeSpec::from(Duration::from_nanos(most.0))), None) {
            Ok(0) | Err(Errno::EINTR) => return Ok(()),
            Ok(_) => {}
            Err(e) => return Err(io::Error::from(e).into()),
        }
        let count = self.epoll.wait(&mut self.ready, EpollTimeout::ZERO).map_err(io::Error::from)?;
        for index in 0..count {
            let event = self.ready[index];
            match u32::try_from(event.data()) {
                Ok(number) => self.serve(StreamId(number), event.events())?,
                Err(_) => self.accept()?,
            }
        }
        Ok(())
    }

    /// Do what a stream's socket is ready for.
    fn serve(&mut self, id: StreamId, ready: EpollFlags) -> Result<(), Failure> {
        let now = self.run_time(self.setting.clock.now());
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        match stream.run(ready, &mut self.chunk, now) {
            Ok(read) if self.setting.receives => self.setting.progress.add_received(read),
            Ok(_) => {}
            // As in the simulator, a connection that times out carries nothing; after the stop nothing is lost with one.
            Err(e) if self.is_stopped || e.kind() == ErrorKind::TimedOut => {
                if !stream.is_closed() {
                    self.lost.insert(id);
                }
                self.streams.remove(&id);
            }
            Err(e) => return Err(e.into()),
        }
        self.handle_events(id)
    }

    fn accept(&mut self) -> Result<(), Failure> {
        let socket = match self.listener.accept() {
            Ok((socket, _)) => socket,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        let id = StreamId(StreamId::ACCEPTED + self.accepted);
        self.accepted += 1;
        let mut stream = Stream::accept(id, socket, self.app.interest())?;
        if self.is_stopped {
            stream.stop()?;
        }
        self.streams.insert(id, stream);
        self.handle_events(id)
    }

    fn handle_events(&mut self, id: StreamId) -> Result<(), Failure> {
        while let Some(event) = self.streams.get_mut(&id).and_then(Stream::next_event) {
            let now = self.setting.clock.now();
            if let Event::Message { stream, message, .. } = event {
                if message.answer_bytes > 0 {
                    *self.owed.entry((stream, message.id)).or_default() += 1;
                    if self.streams.get(&stream).is_none_or(Stream::is_closed) {
                        self.forgive(stream);
                    }
                }
                self.setting.progress.on_arrival(now);
            }
            if now < self.setting.stop {
                self.tell(&event)?;
            }
        }
        if self.streams.get(&id).is_some_and(Stream::is_over) {
            self.streams.remove(&id);
        }
        Ok(())
    }

    /// Time since the start of the run.
    fn run_time(&self, now: Time) -> Time {
        Time(now.since(self.setting.begin).0)
    }

    fn tell(&mut self, event: &Event) -> Result<(), Failure> {
        self.tell_at(self.setting.clock.now(), event)
    }

    /// Tell the application an event as one of `now`.
    fn tell_at(&mut self, now: Time, event: &Event) -> Result<(), Failure> {
        self.app.on_event(self.run_time(now), event, &mut self.actions);
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain() {
            self.apply(action)?;
        }
        self.actions = actions;
        self.setting.progress.check_complete(self.setting.clock.now());
        Ok(())
    }

    fn apply(&mut self, action: Action) -> Result<(), Failure> {
        match action {
            Action::Open { stream, controller, transport: Transport::Tcp } => self.open(stream, controller)?,
            Action::Open { transport: Transport::Quic, .. } => {
                return Err(unsupported("the application opens a connection over QUIC"));
            }
            Action::Write(id, message) => self.write(id, message)?,
            Action::Close(id) => self.close(id)?,
            Action::SetTimer { at, timer } => self.timers.set(at, timer),
            Action::Record(item) => self.setting.progress.record(item),
            Action::Finish => self.setting.progress.finish(),
            Action::Send(_) => return Err(unsupported("the application sends a datagram")),
        }
        Ok(())
    }

    fn open(&mut self, id: StreamId, choice: Option<ControllerChoice>) -> Result<(), Failure> {
        if let Some(ControllerChoice { name, .. }) = choice.as_ref().filter(|choice| !choice.options.is_empty()) {
            let problem = format!(
                "the application opens a connection with options of {name}; expected none: the kernel's controllers have no options"
            );
            return Err(Failure::Controller(problem));
        }
        let controller = choice.map_or_else(|| self.setting.controller.clone(), |choice| choice.name);
        let stream = Stream::open(id, self.setting.peer, &controller, self.app.interest()).map_err(|error| refusal(&controller, &error))?;
        self.streams.insert(id, stream);
        self.opened += 1;
        Ok(())
    }

    fn close(&mut self, id: StreamId) -> Result<(), Failure> {
        self.check_known(id)?;
        self.streams.get_mut(&id).into_iter().for_each(Stream::close);
        self.lost.remove(&id);
        self.forgive(id);
        Ok(())
    }

    /// Check that a stream exists or has existed.
    fn check_known(&self, id: StreamId) -> Result<(), Failure> {
        let is_known = match id.0.checked_sub(StreamId::ACCEPTED) {
            Some(number) => number < self.accepted,
            None => id.0 < self.opened,
        };
        if is_known { Ok(()) } else { Err(self.refuse(Mistake::UnknownStream(id))) }
    }

    /// Return the error of an application that made a mistake.
    fn refuse(&self, mistake: Mistake) -> Failure {
        let Setting { progress, app, clock, .. } = &self.setting;
        Failure::Misuse(Misuse::new(progress.flow(), app, self.run_time(clock.now()), mistake))
    }

    /// Count the answers that a stream still owes as done: it is closed, and they will not be written.
    fn forgive(&mut self, id: StreamId) {
        let progress = &self.setting.progress;
        self.owed.retain(|(stream, _), count| {
            if *stream == id {
                (0..*count).for_each(|_| progress.on_answered());
            }
            *stream != id
        });
    }

    fn write(&mut self, id: StreamId, message: Message) -> Result<(), Failure> {
        self.check_known(id)?;
        let is_written = self.streams.get_mut(&id).is_some_and(|stream| stream.push(message));
        if !is_written && !self.lost.contains(&id) {
            return Err(self.refuse(Mistake::ClosedStream(id)));
        }
        self.setting.progress.on_written(message.answer_bytes > 0);
        if let Entry::Occupied(mut owed) = self.owed.entry((id, message.id)) {
            *owed.get_mut() -= 1;
            if *owed.get() == 0 {
                owed.remove(); // what is answered takes no memory
            }
            self.setting.progress.on_answered();
        }
        Ok(())
    }
}

/// Explain why a connection was not opened.
fn refusal(controller: &str, error: &io::Error) -> Failure {
    let place = format!("the application opens a connection with {controller}");
    match error.kind() {
        // What the kernel says of a name of `TCP_CONGESTION` that it does not know.
        ErrorKind::NotFound => Failure::Controller(format!(
            "{place}: this kernel does not have it; expected one of /proc/sys/net/ipv4/tcp_available_congestion_control; try `modprobe \
             tcp_{controller}` as root, or the simulator"
        )),
        kind => Failure::Socket(io::Error::new(kind, format!("{place}: {error}"))),
    }
}

#[cfg(test)]
mod tests;
