//! A command that asks for the lock under which it runs would wait for itself, and keep the lock from all machines.

use std::env;

use zookeeper_recipes::{Curator, FencingToken};

use crate::contenders::{Contender, contenders};
use crate::exit::Failure;

/// Rejects a path whose lock a `zklock` around this process holds, if `waits` says that a new request would wait for that
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

/// The variable with the holds around those of the command, each with its token in a line.
pub(crate) const OUTER: &str = "ZK_LOCK_OUTER";

/// Returns the value of [`OUTER`] for the command of this process.
pub(crate) fn outer() -> String {
    let holds = inherited().into_iter();
    holds.map(|hold| line(hold.token, &hold.name)).collect()
}

/// Returns the line of [`OUTER`] for the holder with this znode.
pub(crate) fn line(token: i64, node: &str) -> String {
    let name = node.rsplit('/').next().unwrap_or_default();
    format!("{token} {name}\n")
}

/// A hold of a `zklock` under which this process runs.
struct Inherited {
    /// The name of its znode.
    name: String,
    token: i64,
}

impl Inherited {
    fn of(node: &str, token: &str) -> Option<Self> {
        let name = node.rsplit('/').next()?.to_owned();
        Some(Self { name, token: token.parse().ok()? })
    }
}

fn inherited() -> Vec<Inherited> {
    let variable = |name| env::var(name).unwrap_or_default();
    let (nodes, tokens) = (variable("ZK_LOCK_NODE"), variable("ZK_LOCK_TOKEN"));
    let started_by = nodes.lines().zip(tokens.lines());
    let outer = variable(OUTER);
    let outer = outer.lines().filter_map(|line| line.split_once(' '));
    let all = started_by.chain(outer.map(|(token, node)| (node, token)));
    all.filter_map(|(node, token)| Inherited::of(node, token)).collect()
}
