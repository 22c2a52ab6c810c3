//! Applications: what the programs at the two ends of a flow do. Without I/O: an application sees events of streams and timers, and answers
//! with actions. The simulator drives applications over its own transports; a driver of real sockets can drive the same code.
//!
//! | module | holds |
//! |---|---|
//! | [`app`] | the trait and events |
//! | [`message`] | streams and the messages on them, datagrams |
//! | [`actions`] | the actions of an application, and the rows that it records |
//! | [`bulk`], [`transfers`], [`paced`] | applications that send |
//! | [`request`] | requests, one after the other |
//! | [`call`] | a video call over datagrams: congestion control, retransmissions, jitter buffer |
//! | [`web`] | a page of objects from several hosts, over HTTP/1.1, HTTP/2 or HTTP/3 |
//! | [`video`] | a video player and how it chooses qualities |
//! | [`items`], [`timers`], [`misuse`] | parts that every driver needs: items in the tables, the timers of an end, mistakes of an application |
//! | [`server`] | the other end of them all: receives, and answers requests |
//!
//! An application is one *end*. The two ends share no memory and exchange nothing but messages on streams and datagrams, as two programs on two hosts do.
//! `docs/design/010-applications.md` gives the reasons.

pub mod actions;
pub mod app;
pub mod bulk;
pub mod call;
pub mod items;
pub mod message;
pub mod misuse;
pub mod paced;
pub mod request;
pub mod server;
#[cfg(test)]
mod testing;
pub mod timers;
pub mod transfers;
pub mod video;
pub mod web;

pub use actions::{Action, Actions, ControllerChoice, Item, Transport};
pub use app::{App, Event, Interest};
pub use message::{Datagram, Message, StreamId};
pub use misuse::{Mistake, Misuse};

use bentpipe_profile::Streams;
use bentpipe_profile::app::AppSpec;

/// The applications at the two ends of a flow.
pub struct Ends {
    /// At the host that sends the flow's data.
    pub sender: Box<dyn App>,
    /// At the host that receives them.
    pub receiver: Box<dyn App>,
}

/// Build both ends of an application; `None` for a plugin. Random draws come from `streams`.
#[must_use]
pub fn build(spec: &AppSpec, streams: Streams) -> Option<Ends> {
    let server = || Box::new(server::Server::default());
    Some(match spec {
        AppSpec::Bulk => Ends { sender: Box::new(bulk::Bulk), receiver: server() },
        AppSpec::Transfers { sizes_bytes, count, every_ns, poisson } => {
            let draws = poisson.then(|| streams.stream("app"));
            Ends { sender: Box::new(transfers::Transfers::new(sizes_bytes.clone(), *count, *every_ns, draws)), receiver: server() }
        }
        AppSpec::Paced { write_bytes, every_ns } => {
            Ends { sender: Box::new(paced::Paced::new(*write_bytes, *every_ns)), receiver: server() }
        }
        AppSpec::Request { request_bytes, response_bytes, count, think_ns } => Ends {
            sender: Box::new(server::Server::new(*think_ns)),
            receiver: Box::new(request::Request::new(*request_bytes, *response_bytes, *count)),
        },
        AppSpec::Web { objects, http, loads, pause_ns } => {
            Ends { sender: server(), receiver: Box::new(web::Web::new(objects.clone(), *http, *loads, *pause_ns)) }
        }
        AppSpec::Call(spec) => Ends {
            sender: Box::new(call::Call::new(spec, false, streams.stream("app/call"))),
            receiver: Box::new(call::Call::new(spec, true, streams.stream("app/call/reverse"))),
        },
        AppSpec::Video(spec) => Ends { sender: server(), receiver: Box::new(video::Player::new(spec)) },
        AppSpec::Plugin { .. } => return None,
    })
}
