//! What each process answers, whether it leads or not.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use zookeeper_recipes::leader::{LeaderLatch, LeaderObserver};
use zookeeper_recipes::session::ConnectionState;
use zookeeper_recipes::{CancellationToken, Curator, Error};

use crate::billing;

/// The state that all handlers share.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) curator: Curator,
    latch: LeaderLatch,
    observer: LeaderObserver,
    /// Is cancelled when the process begins to shut down.
    pub(crate) leaving: CancellationToken,
}

/// What `/leader` answers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Answer {
    /// The leader as this process last heard: good enough to send a client there, but no proof.
    leader: Option<String>,
    /// The fencing token of that leader.
    token: Option<i64>,
    /// Whether this process leads, by its clock.
    leads: bool,
}

impl Service {
    pub(crate) fn new(curator: &Curator, latch: &LeaderLatch) -> Result<Self, Error> {
        Ok(Self {
            curator: curator.clone(),
            latch: latch.clone(),
            observer: curator.observe_leader(latch.path())?,
            leaving: CancellationToken::new(),
        })
    }
}

pub(crate) fn routes(service: Service) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/leader", get(leader))
        .route("/orders/{order}", post(billing::bill))
        .with_state(service)
}

/// Alive without ZooKeeper, too: a restart of this process would not bring the servers back.
async fn livez(State(service): State<Service>) -> StatusCode {
    match service.curator.state() {
        ConnectionState::Closed => StatusCode::SERVICE_UNAVAILABLE, // for good
        _ => StatusCode::OK,
    }
}

/// Ready while a server answers, until the process begins to shut down.
async fn readyz(State(service): State<Service>) -> StatusCode {
    let is_ready = service.curator.state().is_connected() && !service.leaving.is_cancelled();
    if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn leader(State(service): State<Service>) -> Json<Answer> {
    let leads = service.latch.is_leader();
    let leader = service.observer.leader();
    let token = leader.as_ref().and_then(|leader| leader.fencing_token);
    let leader = leader.and_then(|leader| leader.identity);
    Json(Answer { leader, token: token.map(|token| token.value()), leads })
}
