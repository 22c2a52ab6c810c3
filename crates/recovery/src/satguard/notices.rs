//! What a link's end tells its node, where nodes are processes of their own.

use super::handover::{Handover, Message};
use bentpipe_link::Packet;
use std::sync::{Arc, Mutex, PoisonError};

/// What a link's end tells its node.
#[derive(Clone, Copy, Debug)]
pub enum Notice {
    /// It keeps the packet with this body.
    Kept(u32),
    /// It needs this body no more.
    Freed(u32),
    /// A message for the next satellite, due now.
    Migrates(Handover, Message<Packet>),
}

/// Notices of the link ends of a node, in order.
#[derive(Clone, Debug, Default)]
pub struct Notices(Arc<Mutex<Vec<Notice>>>);

impl Notices {
    pub(super) fn push(&self, notice: Notice) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }

    /// Move all notices so far to `to`.
    pub fn take(&self, to: &mut Vec<Notice>) {
        to.append(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
