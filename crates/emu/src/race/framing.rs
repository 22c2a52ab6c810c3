//! Messages as bytes: a header of three numbers (size, number, size of the answer; big-endian), then bytes without meaning.

use bentpipe_apps::Message;
use bentpipe_profile::app::MESSAGE_HEADER;
use bentpipe_profile::{Bytes, Time};
use std::collections::VecDeque;
use std::io;

/// Bytes of a header.
const HEADER: usize = 24;
const _: () = assert!(MESSAGE_HEADER.0 == HEADER as u64);

fn encode(message: &Message) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let numbers = [message.bytes.0, message.id, message.answer_bytes];
    header.as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(bytes, number)| *bytes = number.to_be_bytes());
    header
}

fn decode(header: [u8; HEADER]) -> io::Result<Message> {
    let [bytes, id, answer_bytes] = [0, 8, 16].map(|at| u64::from_be_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|byte: usize| header[at + byte])));
    if bytes < MESSAGE_HEADER.0 {
        let problem = format!("a message of {bytes} bytes arrived; expected at least {HEADER}, its header");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(Message { bytes: Bytes(bytes), id, answer_bytes })
}

/// Messages that an application wrote and the socket has not accepted yet.
#[derive(Debug, Default)]
pub struct Outbox {
    messages: VecDeque<Message>,
    /// Bytes of the first message that the socket has accepted.
    sent: u64,
}

impl Outbox {
    /// Add a message.
    pub fn push(&mut self, message: Message) {
        self.messages.push_back(message);
    }

    /// Whether the socket has accepted everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Return the next bytes to write, at most `chunk`, and of one message. What `chunk` holds behind a header has no meaning.
    pub fn next<'a>(&self, chunk: &'a mut [u8]) -> Option<&'a [u8]> {
        let message = self.messages.front()?;
        let left = usize::try_from(message.bytes.0 - self.sent).unwrap_or(usize::MAX).min(chunk.len());
        if let Some(sent) = usize::try_from(self.sent).ok().filter(|&sent| sent < HEADER) {
            let header = &encode(message)[sent..];
            let length = header.len().min(left);
            chunk[..length].copy_from_slice(&header[..length]);
        }
        Some(&chunk[..left])
    }

    /// Record that the socket accepted bytes of [`Self::next`].
    pub fn accept(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        if self.messages.front().is_some_and(|message| self.sent >= message.bytes.0) {
            self.messages.pop_front();
            self.sent = 0;
        }
    }

    /// Forget everything that the socket has not accepted.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Messages that arrive.
#[derive(Debug, Default)]
pub struct Inbox {
    header: [u8; HEADER],
    filled: usize,
    /// The message whose header has arrived, with the bytes that are to come.
    message: Option<(Message, u64)>,
    first_byte: Time,
    /// Whole messages, with the arrival of their first byte.
    whole: VecDeque<(Message, Time)>,
}

impl Inbox {
    /// Add what arrived at `now`.
    ///
    /// # Errors
    /// A message shorter than its header: the other end is not an application of bentpipe.
    pub fn push(&mut self, mut bytes: &[u8], now: Time) -> io::Result<()> {
        while !bytes.is_empty() {
            if let Some((message, left)) = &mut self.message {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= taken as u64;
                bytes = &bytes[taken..];
                if *left == 0 {
                    self.whole.push_back((*message, self.first_byte));
                    self.message = None;
                }
                continue;
            }
            if self.filled == 0 {
                self.first_byte = now;
            }
            let taken = (HEADER - self.filled).min(bytes.len());
            self.header[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == HEADER {
                self.filled = 0;
                let message = decode(self.header)?;
                match message.bytes.0 - MESSAGE_HEADER.0 {
                    0 => self.whole.push_back((message, self.first_byte)),
                    left => self.message = Some((message, left)),
                }
            }
        }
        Ok(())
    }

    /// Take the next whole message, with the arrival of its first byte.
    pub fn pop(&mut self) -> Option<(Message, Time)> {
        self.whole.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(bytes: u64, id: u64, answer_bytes: u64) -> Message {
        Message { bytes: Bytes(bytes), id, answer_bytes }
    }

    #[test]
    fn a_message_shorter_than_its_header_is_refused() {
        let problem = Inbox::default().push(&encode(&message(23, 0, 0)), Time(0)).unwrap_err();
        assert_eq!(problem.to_string(), "a message of 23 bytes arrived; expected at least 24, its header");
    }

    #[test]
    fn a_message_without_end_never_arrives() {
        let mut outbox = Outbox::default();
        outbox.push(message(u64::MAX, 0, 0));
        let (mut chunk, mut inbox) = (vec![0; 1000], Inbox::default());
        for _ in 0..100 {
            let bytes = outbox.next(&mut chunk).unwrap();
            inbox.push(bytes, Time(1)).unwrap();
            let accepted = bytes.len();
            outbox.accept(accepted);
        }
        assert!(inbox.pop().is_none() && !outbox.is_empty());
    }

    proptest! {
        /// However a stream is cut on its way, the messages that were written arrive, in order, each with the time of its first byte.
        #[test]
        fn messages_survive_any_cuts(
            sizes in prop::collection::vec((24_u64..3000, any::<u64>(), any::<u64>()), 1..20),
            cuts in prop::collection::vec((1_usize..700, 1_usize..700), 1..200),
        ) {
            let written: Vec<_> = sizes.into_iter().map(|(bytes, id, answer)| message(bytes, id, answer)).collect();
            let mut outbox = Outbox::default();
            for message in &written {
                outbox.push(*message);
            }
            let mut stream = Vec::new();
            for &(size, accepted) in cuts.iter().cycle() {
                let mut chunk = vec![0xa5; size];
                let Some(bytes) = outbox.next(&mut chunk) else { break };
                let accepted = accepted.min(bytes.len());
                stream.extend_from_slice(&bytes[..accepted]);
                outbox.accept(accepted);
            }
            let mut inbox = Inbox::default();
            let (mut position, mut arrived) = (0, Vec::new());
            for &(_, size) in cuts.iter().cycle() {
                if position == stream.len() {
                    break;
                }
                let end = (position + size).min(stream.len());
                inbox.push(&stream[position..end], Time(end as u64)).unwrap();
                while let Some((message, first_byte)) = inbox.pop() {
                    arrived.push((message, first_byte));
                }
                position = end;
            }
            prop_assert_eq!(arrived.iter().map(|(message, _)| *message).collect::<Vec<_>>(), written);
            let mut begin = 0;
            for (message, first_byte) in arrived {
                prop_assert!(first_byte.0 > begin, "the first byte, at {}, arrived by {}", begin, first_byte.0);
                begin += message.bytes.0;
            }
        }

        /// Foreign bytes give messages or one refusal, never a panic.
        #[test]
        fn any_bytes_are_messages_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            let mut inbox = Inbox::default();
            let _ = inbox.push(&bytes, Time(0));
            while inbox.pop().is_some() {}
        }
    }
}
