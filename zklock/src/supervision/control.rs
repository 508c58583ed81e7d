//! `zklock`'s end of the socket to its supervisor.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::unix::net;

use rustix::net::{SendFlags, Shutdown, send, shutdown};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::wire::{LONGEST, Order, Report, decode, encode};

#[derive(Debug)]
pub(super) struct Control {
    socket: UnixStream,
    /// Orders that found no room, because a stopped supervisor reads nothing. Each order is kept once, so the queue
    /// stays short.
    waiting: VecDeque<Order>,
}

impl Control {
    pub(super) fn new(socket: net::UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket: UnixStream::from_std(socket)?, waiting: VecDeque::new() })
    }

    /// Sends an order at once, or as soon as there is room during a wait for a report.
    pub(super) fn order(&mut self, order: Order) {
        if matches!(order, Order::Lease(_)) {
            // Only the latest lease counts.
            self.waiting.retain(|waiting| !matches!(waiting, Order::Lease(_)));
        }
        // A pending signal is not queued twice, as in the kernel.
        if !self.waiting.contains(&order) {
            self.waiting.push_back(order);
        }
        let _ = send_all(&self.socket, &mut self.waiting); // the rest later
    }

    /// Closes the socket, which looks to the supervisor as if we had ended.
    pub(super) fn close(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both); // the supervisor may have ended
    }

    /// Returns the next report; `None` if the supervisor has ended.
    pub(super) async fn report(&mut self) -> Option<Report> {
        let mut packet = [0; LONGEST];
        loop {
            let interest = if self.waiting.is_empty() {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            if self.socket.ready(interest).await.ok()?.is_writable() {
                let Self { socket, waiting } = self;
                let _ = socket.try_io(Interest::WRITABLE, || send_all(socket, waiting));
            }
            match self.socket.try_read(&mut packet) {
                Ok(0) => return None,
                Ok(length) => return decode(&packet[..length]).ok(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The supervisor ended with an order unread. This error comes once, and before its last report.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
                Err(_) => return None,
            }
        }
    }
}

/// Sends the orders while there is room. This bypasses tokio, which takes each socket for a full one until it polls
/// it first.
fn send_all(socket: &UnixStream, waiting: &mut VecDeque<Order>) -> io::Result<()> {
    while let Some(order) = waiting.front() {
        // A packet is sent whole or not at all. After any error it is sent again: the end of the reports shows that
        // the supervisor has ended.
        send(socket, &encode(order)?, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            .map_err(|_| ErrorKind::WouldBlock)?;
        waiting.pop_front();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::supervision::clock::BootInstant;
    use crate::supervision::wire::pair;

    fn lease(seconds: u64) -> Order {
        Order::Lease(BootInstant::default().after(Duration::from_secs(seconds)))
    }

    fn both() -> (Control, net::UnixStream) {
        let (ours, theirs) = pair().unwrap();
        let theirs = net::UnixStream::from(theirs);
        theirs.set_nonblocking(true).unwrap();
        (Control::new(ours).unwrap(), theirs)
    }

    /// Returns all orders that have come.
    fn read(socket: &mut net::UnixStream) -> Vec<Order> {
        let mut packet = [0; LONGEST];
        let packets = std::iter::from_fn(|| {
            socket.read(&mut packet).ok().map(|length| decode(&packet[..length]))
        });
        packets.map(|order| order.unwrap()).collect()
    }

    #[tokio::test]
    async fn what_is_ordered_first_of_all_is_sent() {
        let (mut control, mut theirs) = both();
        control.order(Order::Lost);
        assert_eq!(read(&mut theirs), [Order::Lost]);
    }

    /// The supervisor is continued, and reads on.
    #[tokio::test]
    async fn who_was_stopped_for_long_misses_no_signal_nor_the_loss() {
        let (mut control, theirs) = both();
        let mut last = 0;
        while control.waiting.is_empty() {
            last += 1;
            control.order(lease(last));
        }
        let late =
            [Order::Signal(15), lease(last + 1), Order::Signal(1), Order::Signal(15), Order::Lost];
        late.into_iter().for_each(|order| control.order(order));
        let reader = UnixStream::from_std(theirs).unwrap();
        let mut got = Vec::new();
        let reading = async {
            let mut packet = [0; LONGEST];
            while got.last() != Some(&Order::Lost) {
                reader.readable().await.unwrap();
                if let Ok(length) = reader.try_read(&mut packet) {
                    got.push(decode(&packet[..length]).unwrap());
                }
            }
        };
        tokio::select! {
            _ = control.report() => panic!("nothing is reported"),
            read = timeout(Duration::from_secs(10), reading) => read.expect("all is sent"),
        }
        let sent: Vec<_> = (1..last).map(lease).collect();
        let (before, late) = got.split_at(sent.len());
        assert_eq!(before, sent);
        assert_eq!(late, [Order::Signal(15), lease(last + 1), Order::Signal(1), Order::Lost]);
    }
}
