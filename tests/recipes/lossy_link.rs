//! A link between client and server that loses one request or one reply, and breaks there.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// ZooKeeper's operation codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Delete = 2,
    List = 8,
    Create = 15,
}

/// What is lost of the next such operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The server never sees it.
    Request,
    /// The server does it, and the client is not told.
    Reply,
}

/// Forwards to a server. Ends, with its connections, when it is dropped.
pub(crate) struct LossyLink {
    pub(crate) connect_string: String,
    fault: watch::Sender<Option<(Operation, Lost)>>,
    lost: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl LossyLink {
    pub(crate) async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connect_string = listener.local_addr().unwrap().to_string();
        let (fault, _) = watch::channel(None);
        let lost = Arc::new(AtomicUsize::new(0));
        let (server, faults, losses) = (server.to_owned(), fault.clone(), lost.clone());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (server, faults, losses) = (server.clone(), faults.clone(), losses.clone());
                connections.spawn(async move {
                    // However it ends, both sides are closed.
                    let _ = forward(client, &server, &faults, &losses).await;
                });
            }
        });
        Self { connect_string, fault, lost, _task: AbortOnDropHandle::new(task) }
    }

    /// Loses this of the next operation of the kind, and breaks the connection.
    pub(crate) fn lose(&self, lost: Lost, operation: Operation) {
        self.fault.send_replace(Some((operation, lost)));
    }

    /// How often something was lost.
    pub(crate) fn losses(&self) -> usize {
        self.lost.load(Ordering::SeqCst)
    }
}

async fn forward(
    client: TcpStream,
    server: &str,
    fault: &watch::Sender<Option<(Operation, Lost)>>,
    losses: &AtomicUsize,
) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    // The handshake has no number and no operation.
    to_server.write_all(&frame(&mut from_client).await?).await?;
    to_client.write_all(&frame(&mut from_server).await?).await?;
    let (number, doomed) = watch::channel(None);
    let requests = async {
        loop {
            let request = frame(&mut from_client).await?;
            let word = |at: usize| i32::from_be_bytes(request[at..at + 4].try_into().unwrap());
            let armed = *fault.borrow();
            if let Some((operation, lost)) = armed
                && word(8) == operation as i32
            {
                fault.send_replace(None);
                losses.fetch_add(1, Ordering::SeqCst);
                if lost == Lost::Request {
                    return Err::<(), _>(io::ErrorKind::ConnectionReset.into());
                }
                number.send_replace(Some(word(4)));
            }
            to_server.write_all(&request).await?;
        }
    };
    let replies = async {
        loop {
            let reply = frame(&mut from_server).await?;
            let number = i32::from_be_bytes(reply[4..8].try_into().unwrap());
            if *doomed.borrow() == Some(number) {
                return Err::<(), io::Error>(io::ErrorKind::ConnectionReset.into());
            }
            to_client.write_all(&reply).await?;
        }
    };
    tokio::try_join!(requests, replies).map(drop)
}

/// One frame, its length included.
async fn frame(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame).await?;
    let length = u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize;
    frame.resize(4 + length, 0);
    from.read_exact(&mut frame[4..]).await?;
    Ok(frame)
}
