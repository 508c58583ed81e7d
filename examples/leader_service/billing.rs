//! A request that works under a lock: one process at a time bills an order.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use zookeeper_recipes::{ErrorKind, FencingToken};

use crate::http::Service;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BillingError {
    #[error(transparent)]
    Lock(#[from] zookeeper_recipes::Error), // `run` needs this `From`
    #[error("billing took longer than {DEADLINE:?}")]
    TooLate(#[from] tokio::time::error::Elapsed),
    #[error("order {0} has no number")]
    NoNumber(String),
}

/// How long a request waits for its lock.
const WAIT: Duration = Duration::from_secs(2);
/// How long a request takes in all.
const DEADLINE: Duration = Duration::from_secs(5);

/// `POST /orders/{order}`. axum drops this future if the client hangs up, and with it the lock or the place in the queue.
pub(crate) async fn bill(
    State(service): State<Service>,
    Path(order): Path<String>,
) -> Result<String, BillingError> {
    let lock = service.curator.mutex_for("/orders", &order)?; // escapes what the client sent
    let billing = lock.run_timeout(WAIT, async |hold| charge(&order, hold.fencing_token()).await);
    tokio::time::timeout(DEADLINE, billing).await?
}

/// Sends the token with the charge, so that the bank can refuse a process that lost the lock meanwhile.
async fn charge(order: &str, token: FencingToken) -> Result<String, BillingError> {
    let number: u32 = order.parse().map_err(|_| BillingError::NoNumber(order.to_owned()))?;
    tokio::time::sleep(Duration::from_millis(20)).await;
    Ok(format!("billed order {number} under token {token}\n"))
}

impl IntoResponse for BillingError {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::NoNumber(_) => StatusCode::BAD_REQUEST,
            Self::TooLate(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Lock(error) => match error.kind() {
                ErrorKind::Busy => StatusCode::CONFLICT, // another request bills this order
                ErrorKind::Unavailable | ErrorKind::LimitReached => StatusCode::SERVICE_UNAVAILABLE,
                ErrorKind::Lost => StatusCode::INTERNAL_SERVER_ERROR, // whether it was billed is not known
                ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE, // this process shuts down
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
        };
        let text = format!("{self}\n");
        match status {
            StatusCode::SERVICE_UNAVAILABLE => (status, [(RETRY_AFTER, "1")], text).into_response(),
            _ => (status, text).into_response(),
        }
    }
}
