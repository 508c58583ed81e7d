//! The messages between `zklock` and its supervisor: one message in a packet.

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

use super::clock::BootInstant;
use super::ending::{Cause, Plan};

/// The size of a buffer, longer than any message.
pub(super) const LONGEST: usize = 1024;

/// A message from `zklock` to its supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Order {
    /// The first order, sent together with the command's standard input.
    Begin { plan: Plan, foreground: bool },
    /// The lease lasts until then.
    Lease(BootInstant),
    /// The lock is lost.
    Lost,
    /// The command must get this signal.
    Signal(i32),
}

/// A message from the supervisor to `zklock`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command's process, and its group.
    Started(i32),
    /// The command cannot be started. This is the last report.
    Failed { code: u8, why: String },
    /// This process of the command may not be signalled.
    Refused(i32),
    /// The command is being ended for this reason.
    Ending(Cause),
    /// The command was stopped by this signal, and `continued` if it was continued at once.
    Stopped { signal: i32, continued: bool },
    /// No process of the command is left. This is the last report.
    Ended(Ended),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// The command's exit code, as a shell has it.
    pub(crate) code: u8,
    /// True if an INT ended the command.
    pub(crate) interrupted: bool,
    /// The reason why the command was ended, if it did not end by itself.
    pub(crate) cause: Option<Cause>,
    /// The time at which the end of the command itself was seen.
    pub(crate) at: BootInstant,
}

/// Returns both ends of a socket. An `exec` closes both.
pub(super) fn pair() -> io::Result<(UnixStream, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let kind = SocketType::SEQPACKET;
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

/// Waits for a message with a file descriptor.
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
