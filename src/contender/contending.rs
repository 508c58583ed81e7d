//! The caller's end of a contender.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use super::hold::Hold;
use super::parked::{Next, Parked};
use super::{Contender, Contenders, Request, Start};
use crate::error::{AcquireError, SessionError};
use crate::lock_path::LockPath;
use crate::session::clock::Moment;
use crate::session::epoch::Asker;

/// `None`: busy, and the caller asked not to wait.
pub(crate) type Answer = Result<Option<Hold>, AcquireError>;

/// What the task of a contender tells its caller.
#[derive(Debug)]
pub(super) enum Reply {
    Answer(Box<Answer>),
    /// It has to wait for one of ours, which needs no task.
    Parked(Box<Parked>),
}

/// Whether the servers said that a contender has to wait for somebody.
pub(crate) type Queued = Arc<watch::Sender<bool>>;

/// The caller's end of a contender. Dropping it withdraws.
#[derive(Debug)]
pub(crate) struct Contending {
    path: LockPath,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Its task will say.
    Task(oneshot::Receiver<Reply>),
    Parked(Box<Parked>),
    Over,
}

impl Contending {
    pub(crate) async fn answer(&mut self) -> Answer {
        loop {
            match &mut self.stage {
                Stage::Task(reply) => match reply.await {
                    Ok(Reply::Answer(answer)) => return *answer,
                    Ok(Reply::Parked(parked)) => self.stage = Stage::Parked(parked),
                    Err(_) => break,
                },
                Stage::Parked(parked) => {
                    let came = parked.turn().await;
                    if let Stage::Parked(parked) = std::mem::replace(&mut self.stage, Stage::Over) {
                        match parked.go_on(came) {
                            Next::Answer(answer) => return answer,
                            Next::Task(task) => self.stage = Stage::Task(task),
                        }
                    }
                }
                Stage::Over => break,
            }
        }
        // The task answers before it ends, unless its runtime is gone.
        let (path, source) = (self.path.to_string(), SessionError::Closed);
        Err(AcquireError::Session { path, source })
    }
}

/// Queues up.
pub(crate) fn contend(
    contenders: &Arc<Contenders>,
    request: Request,
    queued: Queued,
) -> Contending {
    queued.send_replace(false);
    let path = request.path.clone();
    let (began, retry) = (Moment::now(), request.retry.start());
    let contender = Contender {
        contenders: contenders.clone(),
        request,
        queued,
        asker: Asker::current(),
        began,
        retry,
    };
    Contending { path, stage: Stage::Task(contender.start(Start::Enter)) }
}
