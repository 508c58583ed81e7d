//! What each process answers, whether it leads or not.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use zookeeper_recipes::leader::{LeaderLatch, LeaderObserver};
use zookeeper_recipes::session::ConnectionState;
use zookeeper_recipes::{Curator, Error};

#[derive(Clone)]
struct Service {
    curator: Curator,
    latch: LeaderLatch,
    observer: LeaderObserver,
}

/// What `/leader` answers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Answer {
    /// The leader as this process last heard: good enough to send a client there, but no proof.
    leader: Option<String>,
    /// The fencing token of that leader.
    token: Option<i64>,
    /// Whether this process leads. It looks at the clock.
    leads: bool,
}

pub(crate) fn routes(curator: &Curator, latch: &LeaderLatch) -> Result<Router, Error> {
    let observer = curator.observe_leader(latch.path())?;
    let (curator, latch) = (curator.clone(), latch.clone());
    let routes = Router::new().route("/healthz", get(healthz)).route("/leader", get(leader));
    Ok(routes.with_state(Service { curator, latch, observer }))
}

/// Healthy without ZooKeeper, too: a restart of this process would not bring that back.
async fn healthz(State(service): State<Service>) -> (StatusCode, String) {
    let connection = service.curator.state();
    let status = match connection {
        ConnectionState::Closed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    (status, format!("{connection:?}"))
}

async fn leader(State(service): State<Service>) -> Json<Answer> {
    let (leads, leader) = (service.latch.is_leader(), service.observer.leader());
    let token = leader.as_ref().and_then(|leader| leader.fencing_token);
    let leader = leader.and_then(|leader| leader.identity);
    Json(Answer { leader, token: token.map(|token| token.value()), leads })
}
