//! The protocols that pass through a proxy.

use bytes::{BufMut, Bytes, BytesMut};

/// The longest accepted address; real ones have a few dozen bytes.
const LONGEST_ADDRESS: usize = 512;
/// The length of the version, the sender's number, and the length of its address.
const HEAD: usize = 8 + 8 + 4;

/// The protocol of a connection, by its two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// A client talks to a server, in messages.
    Client,
    /// A follower talks to its leader, in a protocol that the proxy does not parse.
    Quorum,
    /// A member of an ensemble talks to another one, which dials back through the proxy at the port `back`.
    Election { back: u16 },
}

impl Protocol {
    /// Returns how often the proxy dials the server. A leader begins to listen a moment after its election. A
    /// follower that dials it directly is refused and retries this often. A follower that dials the proxy is not
    /// refused, and would return to the election instead.
    pub(super) fn dials(self) -> usize {
        if self == Self::Quorum { 5 } else { 1 }
    }
}

/// Takes the first message of the election protocol and replaces the sender's address with `127.0.0.1:BACK`. `None`
/// while the message is incomplete.
///
/// A member that is dialed by a lower one hangs up and dials the address in the greeting, not the one in its own
/// configuration, and would bypass the proxies.
pub(super) fn take_greeting(unread: &mut BytesMut, back: u16) -> Option<Bytes> {
    let version = i64::from_be_bytes(*unread.first_chunk()?);
    // Before the protocol had versions, this was the sender's number, and nothing followed.
    if version >= 0 {
        return Some(unread.split().freeze());
    }
    let length = u32::from_be_bytes(*unread.get(16..)?.first_chunk()?);
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > LONGEST_ADDRESS {
        return Some(unread.split().freeze());
    }
    if unread.len() < HEAD + length {
        return None;
    }
    let theirs = unread.split_to(HEAD + length);
    let ours = format!("127.0.0.1:{back}");
    let mut greeting = BytesMut::from(&theirs[..16]);
    greeting.put_u32(u32::try_from(ours.len()).unwrap_or_default());
    greeting.put(ours.as_bytes());
    Some(greeting.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_tells_the_way_back_through_us() {
        let mut head = (-65_536_i64).to_be_bytes().to_vec();
        head.extend(3_i64.to_be_bytes());
        let sent = [&head, &b"\0\0\0\x0f127.0.0.1:20001rest"[..]].concat();
        let told = [&head, &b"\0\0\0\x0e127.0.0.1:4000"[..]].concat();
        for length in 0..sent.len() - 4 {
            let mut unread = BytesMut::from(&sent[..length]);
            assert_eq!(take_greeting(&mut unread, 4_000), None, "{length}");
            assert_eq!(unread, sent[..length]);
        }
        let mut unread = BytesMut::from(&sent[..]);
        assert_eq!(take_greeting(&mut unread, 4_000).as_deref(), Some(&told[..]));
        assert_eq!(unread, b"rest"[..]);
    }

    #[test]
    fn what_has_no_address_goes_on_as_it_is() {
        for sent in [&3_i64.to_be_bytes()[..], &[0xff; 64][..]] {
            let mut unread = BytesMut::from(sent);
            assert_eq!(take_greeting(&mut unread, 4_000).as_deref(), Some(sent));
        }
    }
}
