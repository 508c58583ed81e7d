//! The caller's end of a contender.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::hold::Hold;
use super::parked::{Next, Parked};
use super::{Contender, Contenders, Request, Start};
use crate::error::{AcquireError, ReleaseError, SessionError};
use crate::lock_path::LockPath;
use crate::metrics::{Acquiring, Outcome};
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

/// The task of a contender, for its caller. Dropping it withdraws.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) reply: oneshot::Receiver<Reply>,
    /// If there is no reply and a node may be left, how long its removal was waited for.
    pub(super) task: JoinHandle<Option<Duration>>,
}

/// Whether the servers said that a contender has to wait for somebody.
pub(crate) type Queued = Arc<watch::Sender<bool>>;

/// The caller's end of a contender. Dropping it withdraws.
#[derive(Debug)]
pub(crate) struct Contending {
    path: LockPath,
    stage: Stage,
    acquiring: Acquiring,
}

#[derive(Debug)]
enum Stage {
    /// Its task will say.
    Task(Asked),
    Parked(Box<Parked>),
    Over,
}

impl Contending {
    pub(crate) async fn answer(&mut self) -> Answer {
        let answer = self.until_answered().await;
        self.acquiring.ended(Outcome::of(&answer));
        answer
    }

    async fn until_answered(&mut self) -> Answer {
        loop {
            match &mut self.stage {
                Stage::Task(asked) => match (&mut asked.reply).await {
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

    /// Leaves the queue, and waits until the servers know, at most for `patience`. Gives the hold if there is one by
    /// now.
    pub(crate) async fn withdraw(
        mut self,
        patience: Duration,
    ) -> Result<Option<Hold>, ReleaseError> {
        let (stage, began) = (std::mem::replace(&mut self.stage, Stage::Over), Moment::now());
        let left = async {
            let parked = match stage {
                Stage::Over => return Ok(None),
                Stage::Parked(parked) => parked,
                Stage::Task(Asked { mut reply, task }) => {
                    reply.close();
                    // One that does not come to its end goes with its runtime.
                    let lingers = task.await.ok().flatten();
                    match reply.try_recv() {
                        Ok(Reply::Answer(answer)) => return Ok(answer.ok().flatten()),
                        Ok(Reply::Parked(parked)) => parked,
                        Err(_) => return lingers.map_or(Ok(None), Err),
                    }
                }
            };
            parked.leave().await;
            Ok(None)
        };
        let left = timeout(patience, left).await.unwrap_or_else(|_| Err(began.elapsed()));
        left.map_err(|waited| ReleaseError::Unconfirmed { path: self.path.to_string(), waited })
    }
}

/// Queues up.
pub(crate) fn contend(
    contenders: &Arc<Contenders>,
    request: Request,
    queued: Queued,
) -> Contending {
    start(contenders, request, queued, Start::Enter)
}

/// Queues up with the place of a hold that was lost, if that is still there: nobody can have held meanwhile, unless the
/// node was gone.
pub(crate) fn contend_again(
    contenders: &Arc<Contenders>,
    request: Request,
    queued: Queued,
    lost: Hold,
) -> Contending {
    let now = Moment::now();
    let at = match lost.into_place() {
        Some(place) => Start::Wait(place, now),
        None => Start::Again(now),
    };
    start(contenders, request, queued, at)
}

fn start(
    contenders: &Arc<Contenders>,
    request: Request,
    queued: Queued,
    start: Start,
) -> Contending {
    queued.send_replace(false);
    let path = request.path.clone();
    let acquiring = request.counted.acquiring();
    let (began, retry) = (Moment::now(), request.retry.start());
    let contender = Contender {
        contenders: contenders.clone(),
        request,
        queued,
        asker: Asker::current(),
        began,
        retry,
        lingers: Mutex::default(),
    };
    Contending { path, stage: Stage::Task(contender.start(start)), acquiring }
}
