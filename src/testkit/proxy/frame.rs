//! Cuts a stream of bytes into the client protocol's messages. No I/O.

use bytes::{Buf, Bytes, BytesMut};

use super::Direction;
use super::protocol::{self, Protocol};

/// Longer ones are not this protocol; a server's own limit is 1 MiB unless it is configured.
pub(super) const LONGEST: usize = 16 << 20;
/// What a handshake may measure: without the `readOnly` flag of old clients, and with room for newer ones.
const HANDSHAKE: std::ops::RangeInclusive<usize> = 20..=1024;

/// What the head of a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    Connect,
    Request { xid: i32, code: i32 },
    Reply { xid: i32 },
}

/// A message with its length, or bytes of which nothing is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    pub(super) head: Option<Head>,
}

/// One direction of one connection.
#[derive(Debug)]
pub(super) struct Framer {
    direction: Direction,
    is_parsing: bool,
    /// While a greeting with an address is awaited: what to write there.
    back: Option<u16>,
    is_first: bool,
    /// What has been read and not been taken.
    pub(super) unread: BytesMut,
}

impl Framer {
    pub(super) fn new(direction: Direction, protocol: Protocol) -> Self {
        let back = match protocol {
            Protocol::Election { back } if direction == Direction::ToServer => Some(back),
            _ => None,
        };
        let is_parsing = protocol == Protocol::Client;
        Self { direction, is_parsing, back, is_first: true, unread: BytesMut::new() }
    }

    /// The next whole message. From the first bytes on that cannot be a message all are passed on as they come.
    pub(super) fn take(&mut self) -> Option<Piece> {
        if let Some(back) = self.back {
            let bytes = protocol::take_greeting(&mut self.unread, back)?;
            self.back = None;
            return Some(Piece { bytes, head: None });
        }
        if self.is_parsing {
            let length = self.unread.get(..4)?.get_i32();
            match usize::try_from(length) {
                Ok(length) if self.can_measure(length) => return self.message(4 + length),
                _ => self.is_parsing = false,
            }
        }
        self.rest()
    }

    /// What is left, for the end of the stream.
    pub(super) fn rest(&mut self) -> Option<Piece> {
        let bytes = self.unread.split().freeze();
        (!bytes.is_empty()).then_some(Piece { bytes, head: None })
    }

    fn can_measure(&self, length: usize) -> bool {
        let head = if self.direction == Direction::ToServer { 8 } else { 16 };
        if self.is_first { HANDSHAKE.contains(&length) } else { (head..=LONGEST).contains(&length) }
    }

    fn message(&mut self, size: usize) -> Option<Piece> {
        if self.unread.len() < size {
            self.unread.reserve(size - self.unread.len());
            return None;
        }
        let bytes = self.unread.split_to(size).freeze();
        let mut words = bytes.slice(4..12);
        let (xid, code) = (words.get_i32(), words.get_i32());
        let head = match self.direction {
            _ if self.is_first => Head::Connect,
            Direction::ToServer => Head::Request { xid, code },
            Direction::ToClient | Direction::Both => Head::Reply { xid },
        };
        self.is_first = false;
        Some(Piece { bytes, head: Some(head) })
    }
}
