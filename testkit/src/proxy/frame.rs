//! Cuts a stream of bytes into the client protocol's messages. No I/O.

use bytes::{Buf, Bytes, BytesMut};

use super::Direction;
use super::protocol::{self, Protocol};

/// The longest message; longer ones are not this protocol. A server's own limit is 1 MiB unless it is configured.
pub(super) const LONGEST: usize = 16 << 20;
/// The length of a handshake: at least that of old clients, which have no `readOnly` flag, and with room for newer
/// ones.
const HANDSHAKE: std::ops::RangeInclusive<usize> = 20..=1024;

/// The head of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    Connect,
    Request { xid: i32, code: i32 },
    Reply { xid: i32 },
}

/// A message with its length, or bytes that were not parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    pub(super) head: Option<Head>,
}

/// The parser for one direction of one connection.
#[derive(Debug)]
pub(super) struct Framer {
    direction: Direction,
    is_parsing: bool,
    /// The port to write into the address of a greeting, until the greeting has come.
    back: Option<u16>,
    is_first: bool,
    /// Bytes that were read and not taken yet.
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

    /// Takes the next whole message. From the first bytes that cannot be a message, all bytes are passed on as they
    /// come.
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

    /// Takes the remaining bytes, at the end of the stream.
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
        let xid = words.get_i32();
        let code = words.get_i32();
        let head = match self.direction {
            _ if self.is_first => Head::Connect,
            Direction::ToServer => Head::Request { xid, code },
            Direction::ToClient | Direction::Both => Head::Reply { xid },
        };
        self.is_first = false;
        Some(Piece { bytes, head: Some(head) })
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::{Framer, Head, LONGEST, Piece, Protocol};
    use crate::Direction::{self, ToClient, ToServer};

    fn frame(body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap();
        [&length.to_be_bytes(), body].concat()
    }

    fn message(words: &[i32], padding: usize) -> Vec<u8> {
        let mut body: Vec<_> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        body.resize(body.len() + padding, 7);
        frame(&body)
    }

    /// Returns all pieces of a stream that comes in these reads.
    fn pieces<'a>(
        direction: Direction,
        protocol: Protocol,
        reads: impl IntoIterator<Item = &'a [u8]>,
    ) -> Vec<Piece> {
        let mut framer = Framer::new(direction, protocol);
        let mut pieces = Vec::new();
        for read in reads {
            framer.unread.put_slice(read);
            pieces.extend(std::iter::from_fn(|| framer.take()));
        }
        pieces.extend(framer.rest());
        pieces
    }

    fn heads(direction: Direction, stream: &[u8]) -> Vec<Option<Head>> {
        pieces(direction, Protocol::Client, [stream]).into_iter().map(|piece| piece.head).collect()
    }

    #[test]
    fn a_stream_is_known_by_its_heads() {
        let handshake = message(&[0; 10], 5);
        let ping = message(&[-2, 11], 0);
        let create = message(&[5, 15], 60);
        let pong = message(&[-2, 0, 0, 0], 0);
        let tls = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 9];
        let request = |xid, code| Some(Head::Request { xid, code });
        let reply = |xid| Some(Head::Reply { xid });
        for (name, direction, stream, expected) in [
            ("nothing", ToServer, vec![], vec![]),
            ("a handshake", ToServer, handshake.clone(), vec![Some(Head::Connect)]),
            (
                "requests",
                ToServer,
                [&handshake[..], &ping, &create].concat(),
                vec![Some(Head::Connect), request(-2, 11), request(5, 15)],
            ),
            (
                "replies",
                ToClient,
                [&handshake[..], &pong].concat(),
                vec![Some(Head::Connect), reply(-2)],
            ),
            ("the end within a length", ToServer, handshake[..3].to_vec(), vec![None]),
            (
                "the end within a message",
                ToServer,
                [&handshake[..], &create[..30]].concat(),
                vec![Some(Head::Connect), None],
            ),
            ("TLS", ToServer, tls.to_vec(), vec![None]),
            ("a word of four letters", ToServer, b"ruok".to_vec(), vec![None]),
            ("its answer", ToClient, b"imok".to_vec(), vec![None]),
            ("no handshake first", ToServer, ping.clone(), vec![None]),
            (
                "a length below zero",
                ToServer,
                [&handshake[..], &[0xff; 20], &ping].concat(),
                vec![Some(Head::Connect), None],
            ),
            (
                "a message too short for a reply",
                ToClient,
                [&handshake[..], &ping, &pong].concat(),
                vec![Some(Head::Connect), None],
            ),
            (
                "a length that nobody has",
                ToServer,
                [&handshake[..], &u32::try_from(LONGEST + 1).unwrap().to_be_bytes(), &ping]
                    .concat(),
                vec![Some(Head::Connect), None],
            ),
            (
                "a long message",
                ToServer,
                [&handshake[..], &message(&[1, 5], 1 << 20), &ping].concat(),
                vec![Some(Head::Connect), request(1, 5), request(-2, 11)],
            ),
        ] {
            assert_eq!(heads(direction, &stream), expected, "{name}");
        }
    }

    /// A stream of messages, and now and then bytes that are no message.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let valid = (any::<i32>(), 0..200_i32, 8_usize..300)
            .prop_map(|(xid, code, padding)| message(&[xid, code], padding));
        let part = prop_oneof![9 => valid, 1 => vec(any::<u8>(), 0..40)];
        (0_usize..30, vec(part, 0..20)).prop_map(|(padding, parts)| {
            let handshake = message(&[0; 6], padding);
            [handshake, parts.concat()].concat()
        })
    }

    proptest! {
        #[test]
        fn any_split_into_reads_gives_the_same_messages_and_all_bytes(
            stream in stream(),
            cuts in vec(any::<prop::sample::Index>(), 0..20),
            is_to_server: bool,
            is_parsing: bool,
        ) {
            let direction = if is_to_server { ToServer } else { ToClient };
            let protocol = if is_parsing { Protocol::Client } else { Protocol::Quorum };
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let split = pieces(direction, protocol, cuts.windows(2).map(|w| &stream[w[0]..w[1]]));
            let whole = pieces(direction, protocol, [&stream[..]]);
            let single = pieces(direction, protocol, stream.chunks(1));
            for some in [&split, &whole, &single] {
                let forwarded: BytesMut = some.iter().flat_map(|piece| &piece.bytes[..]).collect();
                prop_assert_eq!(&forwarded[..], &stream[..]);
            }
            // Bytes that are no message may come in any pieces.
            let messages = |pieces: &[Piece]| -> Vec<Piece> {
                pieces.iter().filter(|piece| piece.head.is_some()).cloned().collect()
            };
            prop_assert_eq!(messages(&split), messages(&whole));
            prop_assert_eq!(messages(&single), messages(&whole));
            prop_assert!(!is_parsing || whole[0].head == Some(Head::Connect));
        }
    }
}
