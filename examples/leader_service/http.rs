//! What each process answers, whether it leads or not.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use zookeeper_recipes::{ConnectionState, Curator, LeaderLatch, LeaderObserver};

#[derive(Clone)]
struct Service {
    curator: Curator,
    latch: LeaderLatch,
    observer: LeaderObserver,
}

/// What `/leader` answers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Answer {
    /// Who leads, as this process last heard: good to send a client there, no proof of anything.
    pub(crate) leader: Option<String>,
    /// The fencing token of that leader.
    pub(crate) token: Option<i64>,
    /// Whether this process leads, as it looks at the clock.
    pub(crate) leads: bool,
}

pub(crate) fn routes(curator: &Curator, latch: &LeaderLatch) -> Router {
    let (curator, latch, observer) = (curator.clone(), latch.clone(), latch.observe());
    Router::new()
        .route("/healthz", get(healthz))
        .route("/leader", get(leader))
        .with_state(Service { curator, latch, observer })
}

/// Well without ZooKeeper, too: to restart this process would not bring that back.
async fn healthz(State(service): State<Service>) -> (StatusCode, String) {
    let connection = service.curator.state();
    let status = match connection {
        ConnectionState::Closed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    (status, format!("{connection:?}"))
}

async fn leader(State(service): State<Service>) -> Json<Answer> {
    // Of itself the latch knows better than any observer.
    let answer = match service.latch.leadership() {
        Some(leadership) => Answer {
            leader: Some(service.latch.id().into_owned()),
            token: Some(leadership.fencing_token().value()),
            leads: true,
        },
        None => {
            let heard = service.observer.leader();
            Answer {
                leader: heard.as_ref().map(|leader| leader.id().into_owned()),
                token: heard.map(|leader| leader.fencing_token().value()),
                leads: false,
            }
        }
    };
    Json(answer)
}
