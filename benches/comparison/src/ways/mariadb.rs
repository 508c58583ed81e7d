//! What the ways on MariaDB have in common.

use mysql_async::{Error, Pool, PoolConstraints, PoolOpts};

use crate::Failure;
use crate::server::mariadb_options;

/// A row with this name is there already.
pub(super) const DUPLICATE: u16 = 1062;

/// Connections over TCP, on which nothing is sent but what is asked for.
pub(crate) fn pool(address: &str) -> Result<Pool, Failure> {
    let constraints = PoolConstraints::new(1, 8).ok_or("bad bounds of the pool")?;
    // A reset of each connection that comes back would be a round trip more.
    let pooled = PoolOpts::default().with_constraints(constraints).with_reset_connection(false);
    let options = mariadb_options(address)?.db_name(Some("comparison"));
    Ok(Pool::new(options.pool_opts(pooled)))
}

pub(super) fn is_code(error: &Error, code: u16) -> bool {
    matches!(error, Error::Server(server) if server.code == code)
}
