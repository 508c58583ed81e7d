//! Another recipe on the path, which does not keep ours out.

use tokio::time::timeout;
use zookeeper_recipes::interop::ContenderKind;
use zookeeper_recipes::{Curator, Error, ErrorKind, Participant};

use crate::connection::FAREWELL;
use crate::contenders::{Contender, Kind, contenders, of_any_recipe, who};
use crate::exit::Failure;

/// Returns the failure for an error of a request for `asked`: if another recipe is on the path, with its holder or waiter.
pub(crate) async fn explained(curator: &Curator, error: Error, asked: Kind) -> Failure {
    if let Some(path) = error.path().filter(|_| error.kind() == ErrorKind::UnusablePath)
        && let Ok(Ok(all)) = timeout(FAREWELL, contenders(curator, path)).await
        && let Some(failure) = other(path, &all, asked)
    {
        return failure;
    }
    error.into()
}

/// Rejects a path that a semaphore shares with another recipe. The library sees only contenders with the same parent,
/// and those of a semaphore are further down.
///
/// Call this while our own node exists: of two contenders that come at once, the later one sees the other. The outer
/// error means that the check itself failed.
pub(crate) async fn check(
    curator: &Curator,
    path: &str,
    asked: Kind,
) -> Result<Result<(), Failure>, Error> {
    let is_semaphore = asked == Kind::Lease;
    let found = if is_semaphore {
        of_any_recipe(curator, path)?.participants().await
    } else {
        curator.semaphore(path, 1)?.participants().await
    };
    let found = match found {
        Ok(found) => found,
        // A semaphore works without the permission to list the parent of its folders, and a mutex without the
        // permission to list those folders.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(Ok(())),
        Err(error) => return Err(error),
    };
    // The mutex of a semaphore proves nothing: `locks` may be the name of another lock.
    let is_other = |one: &&Participant| match one.kind() {
        Some(kind) => is_semaphore || kind == ContenderKind::Lease,
        None => false,
    };
    Ok(found.iter().find(is_other).map_or(Ok(()), |other| {
        let kind = match other.kind() {
            Some(ContenderKind::Lease) => Kind::Lease,
            Some(ContenderKind::Latch) => Kind::Leader,
            _ => Kind::of(other),
        };
        Err(failure(path, kind, other, asked))
    }))
}

/// Returns the failure if a contender of another recipe is among `all`: the one that came first, because a younger one may be about to
/// be refused as well. kazoo's contenders do not see ours.
pub(crate) fn other(path: &str, all: &[Contender], asked: Kind) -> Option<Failure> {
    // The mutex of a semaphore proves nothing: `locks` may be the name of another lock.
    let proves = |one: &Contender| match one.kind {
        Kind::Lease => one.participant.kind() == Some(ContenderKind::Lease),
        _ => !one.is_of_kazoo(),
    };
    let is_other = |one: &&Contender| proves(one) && one.kind.queue() != asked.queue();
    let other = all.iter().filter(is_other).min_by_key(|one| one.fencing_token)?;
    Some(failure(path, other.kind, other, asked))
}

fn failure(path: &str, kind: Kind, other: &Participant, asked: Kind) -> Failure {
    Failure::usage(format!(
        "{path} is used by {} ({}); you asked for {}: use a path of its own for each",
        kind.recipe(),
        who(other),
        asked.recipe()
    ))
}
