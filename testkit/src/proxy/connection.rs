//! A client's connection and the corresponding connection to the server.

use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::select;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::counters::Unanswered;
use super::lane::{Breakage, Lane};
use super::shared::Shared;
use super::{Cut, Direction};

/// The time that the two ends of a finished connection have to finish it too, before it is reset.
const FINISHING: Duration = Duration::from_secs(1);
const BETWEEN_DIALS: Duration = Duration::from_millis(100);

/// Serves one connection to its end.
pub(super) async fn serve(
    shared: &Shared,
    id: u64,
    cut: oneshot::Receiver<Cut>,
    mut client: TcpStream,
) {
    let mut server = None;
    let ended = select! {
        biased;
        Ok(cut) = cut => Err(cut.into()),
        ended = forward(shared, id, &mut client, &mut server) => ended,
    };
    shared.connections.forget(id);
    let Err(Breakage { cut, faults }) = ended else { return };
    let mut ends = [Some(client), server];
    match cut {
        Cut::Reset => ends.iter_mut().filter_map(Option::take).for_each(reset),
        Cut::Finish => {
            for end in ends.iter_mut().flatten() {
                let _ = end.shutdown().await;
            }
        }
    }
    faults.iter().for_each(|fault| fault.strike());
    // Closing with unread bytes would reset the connection.
    let [client, server] = &mut ends;
    let _ = timeout(FINISHING, async { tokio::join!(drain(client), drain(server)) }).await;
}

/// Closes by `RST`.
#[allow(deprecated)] // blocks only with a time other than zero, and our oldest tokio does not have its successor
pub(super) fn reset(stream: TcpStream) {
    let _ = stream.set_linger(Some(Duration::ZERO));
}

async fn drain(end: &mut Option<TcpStream>) {
    let Some(end) = end else { return };
    let mut bytes = vec![0; 16 << 10];
    while end.read(&mut bytes).await.is_ok_and(|length| length > 0) {}
}

async fn dial(shared: &Shared) -> io::Result<TcpStream> {
    for _ in 1..shared.protocol.dials() {
        if let Ok(stream) = TcpStream::connect(&shared.upstream).await {
            return Ok(stream);
        }
        sleep(BETWEEN_DIALS).await;
    }
    TcpStream::connect(&shared.upstream).await
}

async fn forward(
    shared: &Shared,
    id: u64,
    client: &mut TcpStream,
    server: &mut Option<TcpStream>,
) -> Result<(), Breakage> {
    let unanswered = Unanswered::default();
    let lane = |direction| Lane { direction, connection: id, shared, unanswered: &unanswered };
    let up = lane(Direction::ToServer);
    let down = lane(Direction::ToClient);
    let _ = client.set_nodelay(true);
    let (from_client, to_client) = client.split();
    let (requests, requested) = unbounded_channel();
    let mut reading = pin!(up.read(from_client, requests));
    let mut faults = shared.board.watch();
    select! {
        biased;
        // A connection that is stalled from the start does not reach the server.
        () = up.pass(&mut faults, Instant::now()) => {}
        // The client gave up meanwhile, so the server never sees its connection.
        () = &mut reading => return Ok(()),
    }
    let Ok(upstream) = dial(shared).await else {
        return Err(Cut::Reset.into());
    };
    let _ = upstream.set_nodelay(true);
    let (from_server, to_server) = server.insert(upstream).split();
    let (replies, replied) = unbounded_channel();
    let reading = async { tokio::join!(reading, down.read(from_server, replies)) };
    let writing = async {
        tokio::try_join!(up.write(to_server, requested), down.write(to_client, replied)).map(drop)
    };
    let mut reading = pin!(reading);
    let mut writing = pin!(writing);
    select! {
        written = &mut writing => written,
        _ = &mut reading => writing.await,
    }
}
