//! What `zklock` and its supervisor say to each other: one message in a packet.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::clock::Moment;
use super::ending::{Cause, Plan};

/// Longer than any message.
pub(super) const LONGEST: usize = 1024;

/// What `zklock` tells its supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Order {
    /// The first; the command's standard input comes with it.
    Begin { plan: Plan, foreground: bool },
    /// The lease lasts until then.
    Lease(Moment),
    /// The lock is lost.
    Lost,
    /// Send this to the command.
    Signal(i32),
}

/// What a supervisor tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command's process, and its group.
    Started(i32),
    /// It cannot be started. The last one.
    Failed { code: u8, why: String },
    /// We may not signal this process of it.
    Refused(i32),
    /// The command was told to end.
    Ending(Cause),
    /// The command was stopped by this signal, and was it continued at once.
    Stopped { signal: i32, continued: bool },
    /// Nothing of the command is left. The last one.
    Ended(Ended),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// The command's exit code, as a shell has it.
    pub(crate) code: u8,
    /// Whether it died of an INT.
    pub(crate) interrupted: bool,
    /// Why it was ended, if it did not end by itself.
    pub(crate) cause: Option<Cause>,
    /// When that was seen of the command itself.
    pub(crate) at: Moment,
}

/// Both ends. Neither outlives an `exec`.
pub(super) fn pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::SEQPACKET);
    let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
    Ok((UnixStream::from(ours), theirs))
}

pub(super) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(message)?)
}

pub(super) fn decode<T: DeserializeOwned>(packet: &[u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(packet)?)
}

/// Sends a message with a file descriptor.
pub(super) fn send_with(
    socket: &UnixStream,
    message: &impl Serialize,
    descriptor: &impl AsFd,
) -> io::Result<()> {
    let packet = encode(message)?;
    let descriptors = [descriptor.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[IoSlice::new(&packet)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for a message that has a file descriptor with it.
pub(super) fn receive_with<T: DeserializeOwned>(socket: &UnixStream) -> io::Result<(T, OwnedFd)> {
    let mut packet = [0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut packet)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptor = descriptors.next().and_then(|mut descriptors| descriptors.next());
    let descriptor = descriptor.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((decode(&packet[..received.bytes])?, descriptor))
}
