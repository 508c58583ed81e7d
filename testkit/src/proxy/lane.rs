//! One direction of one connection: the bytes that are read wait in a queue until no fault holds them.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::select;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::alarm::sleep_until;
use super::counters::Unanswered;
use super::fault::{Active, Break, Faults, Kind};
use super::frame::{Framer, Piece};
use super::shared::Shared;
use super::{Cut, Direction, Operation};

/// The smallest buffer for one read.
const CHUNK: usize = 64 << 10;
/// The bytes that may wait, or one message that is longer, before the lane stops reading; as many as full socket
/// buffers hold.
const ROOM: u32 = 4 << 20;

/// The reason to end a connection at both ends.
#[derive(Debug)]
pub(super) struct Breakage {
    pub(super) cut: Cut,
    /// The faults that caused it.
    pub(super) faults: Faults,
}

impl From<Cut> for Breakage {
    fn from(cut: Cut) -> Self {
        Self { cut, faults: Vec::new() }
    }
}

#[derive(Debug)]
pub(super) struct Item {
    content: Content,
    arrived: Instant,
    _room: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
enum Content {
    Piece(Bytes, Option<Operation>),
    Finish,
    Reset,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Lane<'a> {
    pub(super) direction: Direction,
    pub(super) connection: u64,
    pub(super) shared: &'a Shared,
    pub(super) unanswered: &'a Unanswered,
}

impl Lane<'_> {
    /// Reads until the end of the stream.
    pub(super) async fn read(&self, mut from: ReadHalf<'_>, queue: UnboundedSender<Item>) {
        let room = Arc::new(Semaphore::new(ROOM as usize));
        let mut framer = Framer::new(self.direction, self.shared.protocol);
        let end = loop {
            framer.unread.reserve(CHUNK);
            match from.read_buf(&mut framer.unread).await {
                Ok(0) => break Content::Finish,
                Ok(_) => self.acknowledge_late(&from),
                Err(_) => break Content::Reset,
            }
            while let Some(piece) = framer.take() {
                self.enqueue(piece, &room, &queue).await;
            }
        };
        if let Some(piece) = framer.rest() {
            self.enqueue(piece, &room, &queue).await;
        }
        let _ = queue.send(Item { content: end, arrived: Instant::now(), _room: None });
    }

    /// Delays acknowledgements. On a long link an acknowledgement comes no sooner than a reply, and a sender with
    /// Nagle's algorithm waits for it, but ours would arrive at once. With this setting it is sent with the reply, if
    /// the reply comes within the 40 ms that the system waits.
    fn acknowledge_late(&self, from: &ReadHalf<'_>) {
        let is_delay = |fault: &Arc<Active>| matches!(fault.kind, Kind::Delay(..));
        if self.shared.board.watch().borrow().iter().any(is_delay) {
            #[cfg(target_os = "linux")]
            let _ = rustix::net::sockopt::set_tcp_quickack(from.as_ref(), false);
            #[cfg(not(target_os = "linux"))]
            let _ = from;
        }
    }

    async fn enqueue(&self, piece: Piece, room: &Arc<Semaphore>, queue: &UnboundedSender<Item>) {
        let operation = piece.head.and_then(|head| self.unanswered.operation(head));
        if let Some(operation) = operation {
            self.shared.counters.see(self.direction, operation);
        }
        let arrived = Instant::now();
        let size = u32::try_from(piece.bytes.len()).unwrap_or(ROOM).min(ROOM);
        let room = room.clone().acquire_many_owned(size).await.ok();
        let content = Content::Piece(piece.bytes, operation);
        let _ = queue.send(Item { content, arrived, _room: room });
    }

    /// Writes until the end of the queue, or until a fault breaks the connection.
    pub(super) async fn write(
        &self,
        mut to: WriteHalf<'_>,
        mut queue: UnboundedReceiver<Item>,
    ) -> Result<(), Breakage> {
        let mut faults = self.shared.board.watch();
        let mut is_deaf = false;
        while let Some(item) = queue.recv().await {
            let arrived = item.arrived;
            match item.content {
                // The receiver is closed. The sender notices through the other direction, unless that is stalled.
                Content::Piece(..) if is_deaf => {}
                Content::Piece(bytes, operation) => {
                    let (size, breakage) = match operation {
                        Some(operation) => {
                            self.strike(&mut faults, arrived, operation, bytes.len()).await
                        }
                        None => (bytes.len(), None),
                    };
                    let written = self.forward(&mut to, &mut faults, arrived, &bytes[..size]).await;
                    if let Some(breakage) = breakage {
                        return Err(breakage);
                    }
                    is_deaf = written.is_err();
                }
                Content::Finish => {
                    self.pass(&mut faults, arrived).await;
                    let _ = to.shutdown().await;
                }
                Content::Reset => {
                    self.pass(&mut faults, arrived).await;
                    return Err(Cut::Reset.into());
                }
            }
        }
        Ok(())
    }

    /// Returns when no stall and no delay holds bytes that arrived at `arrived`.
    pub(super) async fn pass(&self, faults: &mut watch::Receiver<Faults>, arrived: Instant) {
        let mut struck = Faults::new();
        loop {
            let (waits_for, due) = self.obstacles(&faults.borrow_and_update(), arrived);
            for fault in &waits_for {
                if !contains(&struck, fault) {
                    fault.strike();
                    struck.push(fault.clone());
                }
            }
            match due {
                _ if waits_for.is_empty() => return,
                None => {
                    let _ = faults.changed().await;
                }
                Some(due) => select! {
                    () = sleep_until(due) => {}
                    _ = faults.changed() => {}
                },
            }
        }
    }

    /// Returns the faults that hold the bytes, and when their delay ends; `None` during a stall.
    fn obstacles(&self, faults: &Faults, arrived: Instant) -> (Faults, Option<Instant>) {
        let mut waits_for = Faults::new();
        let mut due = arrived;
        let mut is_stalled = false;
        for fault in faults {
            match fault.kind {
                Kind::Stall(direction) if direction.covers(self.direction) => is_stalled = true,
                Kind::Delay(direction, delay) if direction.covers(self.direction) => due += delay,
                _ => continue,
            }
            waits_for.push(fault.clone());
        }
        if !is_stalled && (waits_for.is_empty() || due <= Instant::now()) {
            waits_for.clear();
        }
        (waits_for, (!is_stalled).then_some(due))
    }

    /// Applies the faults about messages to this one, once its time has come: holds it, and returns how many of its
    /// bytes to forward, and the breakage if the connection is to be cut there.
    async fn strike(
        &self,
        faults: &mut watch::Receiver<Faults>,
        arrived: Instant,
        operation: Operation,
        size: usize,
    ) -> (usize, Option<Breakage>) {
        self.pass(faults, arrived).await;
        let held = self.claimed(&faults.borrow(), operation, |kind| matches!(kind, Kind::Hold(_)));
        held.iter().for_each(|fault| fault.strike());
        while faults.borrow_and_update().iter().any(|fault| contains(&held, fault)) {
            let _ = faults.changed().await;
        }
        self.pass(faults, arrived).await;
        let broken =
            self.claimed(&faults.borrow(), operation, |kind| matches!(kind, Kind::Break(..)));
        let Some(Kind::Break(_, how)) = broken.first().map(|fault| fault.kind) else {
            return (size, None);
        };
        let (size, cut) = match how {
            Break::Before => (0, Cut::Reset),
            Break::Within => (size / 2, Cut::Reset),
            Break::After(cut) => (size, cut),
        };
        (size, Some(Breakage { cut, faults: broken }))
    }

    fn claimed(
        &self,
        faults: &Faults,
        operation: Operation,
        is_wanted: impl Fn(Kind) -> bool,
    ) -> Faults {
        let wanted = faults.iter().filter(|fault| is_wanted(fault.kind));
        wanted
            .filter(|fault| fault.claims(self.connection, self.direction, operation))
            .cloned()
            .collect()
    }

    /// Forwards the bytes. A stall that begins within a long message holds the rest of it.
    async fn forward(
        &self,
        to: &mut WriteHalf<'_>,
        faults: &mut watch::Receiver<Faults>,
        arrived: Instant,
        mut bytes: &[u8],
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            self.pass(faults, arrived).await;
            select! {
                biased;
                _ = faults.changed() => {}
                written = to.write(bytes) => {
                    let written = written?;
                    self.shared.counters.forward(self.direction, written);
                    bytes = &bytes[written..];
                }
            }
        }
        Ok(())
    }
}

fn contains(faults: &Faults, one: &Arc<Active>) -> bool {
    faults.iter().any(|fault| Arc::ptr_eq(fault, one))
}
