//! A command that asks for the lock under which it runs would wait for itself, and keep the lock from all machines.

use std::env;

use zookeeper_recipes::{Curator, FencingToken};

use crate::contenders::{Contender, contenders};
use crate::exit::Failure;

/// Rejects a path whose lock the `zklock` holds that started this process, if `waits` says that a new request would wait for that
/// holder, which is among all contenders.
///
/// The environment outlives the lock, and paths repeat on other servers. So a holder counts only if its znode, with its token, is
/// there now.
pub(crate) async fn check(
    curator: &Curator,
    path: &str,
    waits: impl Fn(&Contender, &[Contender]) -> bool,
) -> Result<(), Failure> {
    let inherited = inherited();
    if inherited.is_empty() {
        return Ok(());
    }
    // What the servers refuse, or do not answer, is reported by the request itself.
    let Ok(all) = contenders(curator, path).await else { return Ok(()) };
    let is_ours = |one: &&Contender| {
        let token = one.fencing_token.map(FencingToken::value);
        one.holds
            && inherited.iter().any(|own| own.name == one.node_name() && Some(own.token) == token)
    };
    match all.iter().find(is_ours) {
        Some(ours) if waits(ours, &all) => Err(Failure::usage(format!(
            "{path}: this process runs under that lock already, and would wait for itself (see ZK_LOCK_NODE)"
        ))),
        _ => Ok(()),
    }
}

/// A hold of the `zklock` that started this process.
struct Inherited {
    /// The name of its znode.
    name: String,
    token: i64,
}

fn inherited() -> Vec<Inherited> {
    let nodes = env::var("ZK_LOCK_NODE").unwrap_or_default();
    let tokens = env::var("ZK_LOCK_TOKEN").unwrap_or_default();
    let holds = nodes.lines().zip(tokens.lines()).filter_map(|(node, token)| {
        let name = node.rsplit('/').next()?.to_owned();
        Some(Inherited { name, token: token.parse().ok()? })
    });
    holds.collect()
}
