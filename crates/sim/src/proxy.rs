//! A proxy on a connection's path: a transport for each side, and the bytes that pass between them.

use bentpipe_profile::{Bytes, Time};
use bentpipe_transport::{Sender, Tcp};

/// Most bytes of one read: a pipe's capacity on Linux, through which a proxy splices.
const READ_BYTES: u64 = 65_536;

/// A proxy that splits a connection. Its side 0 faces the terminal, its side 1 the server.
pub struct Proxy {
    /// The transports of both sides.
    pub sides: [Tcp; 2],
    /// Which side faces the end that opened the connection.
    opener: usize,
    has_opened: bool,
    /// Bytes passed on from each side to the other, and whether the other was closed.
    passed: [u64; 2],
    has_closed: [bool; 2],
}

impl Proxy {
    /// Create a proxy. `accepting` faces the end that opens the connection, which is on side `opener`.
    #[must_use]
    pub fn new(opener: usize, accepting: Tcp, opening: Tcp) -> Self {
        let [accepting, opening] = [accepting.reading_by_hand(), opening.reading_by_hand()];
        let sides = if opener == 0 { [accepting, opening] } else { [opening, accepting] };
        Self { sides, opener, has_opened: false, passed: [0; 2], has_closed: [false; 2] }
    }

    /// Pass on what has arrived at each side to the other. While a side has no room for more, the other reads nothing, and its receive window fills.
    /// `sender` makes the sender of the accepting side, once the server's data come.
    ///
    /// # Errors
    /// Those of `sender`.
    pub fn pass_on<E>(&mut self, now: Time, sender: impl Fn() -> Result<Sender, E>) -> Result<(), E> {
        if !self.has_opened && self.sides[self.opener].has_been_asked() {
            self.has_opened = true;
            self.sides[1 - self.opener].open(now);
        }
        for from in 0..2 {
            let to = 1 - from;
            let delivered = self.sides[from].delivered().0;
            let is_closing = self.sides[from].is_closed() && !self.has_closed[from];
            if (delivered == self.passed[from] && !is_closing) || (to == self.opener && !self.sides[to].is_established()) {
                continue;
            }
            if !self.sides[to].has_sender() {
                self.sides[to].set_sender(sender()?);
            }
            while self.passed[from] < delivered && !self.sides[to].has_unbuffered_data() {
                let bytes = Bytes((delivered - self.passed[from]).min(READ_BYTES));
                self.sides[from].read(now, bytes);
                self.sides[to].write(now, bytes);
                self.passed[from] += bytes.0;
            }
            if is_closing && self.passed[from] == delivered {
                self.has_closed[from] = true;
                self.sides[to].close();
            }
        }
        Ok(())
    }

    /// Return the bytes that it holds: those that arrived on one side and are not acknowledged on the other.
    #[must_use]
    pub fn held(&self) -> Bytes {
        Bytes((0..2).map(|from| self.sides[from].delivered().0.saturating_sub(self.sides[1 - from].acked().0)).sum())
    }

    /// Whether nothing is left to send on either side.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.sides.iter().all(Tcp::is_done)
    }
}
