#!/usr/bin/env bash
# Drops the conditions of the rules that save round trips, of the lease, of the lost create and of the answers, one at a time in a copy of the
# sources, and searches with the simulation until the judge finds it. Takes `all`, or a pattern of the conditions to be dropped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
mkdir -p "${CARGO_TARGET_DIR:-target}/sabotage"
kept=$(cd "${CARGO_TARGET_DIR:-target}/sabotage" && pwd)
# A target folder of its own: in a shared one cargo takes a binary of the edited sources for that of the sound ones.
target=$kept/target
tree=$kept/tree
log=$kept/log
only="$*"
[ "$only" != all ] || only=
dropped=0 missed=()

rm -rf "$tree" "$tree.sound"
mkdir -p "$tree"
# With new times: the last run may have built a version that was edited later than these files.
git ls-files -coz --exclude-standard | while IFS= read -r -d '' file; do
  if [ -e "$file" ]; then printf '%s\0' "$file"; fi
done | tar c --null -T - | tar xm -C "$tree"
cp -r "$tree/src" "$tree.sound"

# condition, then pairs of a file below src/queue and an edit in Perl's words, whose pattern must be there.
drop() {
  local condition=$1 file picture started=$SECONDS built files=()
  shift
  if [ -n "$only" ] && ! [[ $condition =~ $only ]]; then return; fi
  while [ $# -gt 0 ]; do
    file=$tree/src/queue/$1
    perl -0pi -e "$2 or die \"the pattern is not there any more\\n\"" "$file" ||
      { echo "sabotage: $condition: cannot be dropped in $1"; exit 1; }
    files+=("$1")
    shift 2
  done
  (cd "$tree" && CARGO_TARGET_DIR=$target $cargo test --quiet --profile simulate --features simulation --test simulation --no-run >"$log" 2>&1) ||
    { cat "$log"; echo "sabotage: $condition: does not compile"; exit 1; }
  built=$((SECONDS - started))
  picture=$kept/$(tr -cs 'a-z0-9\n' - <<<"$condition").svg
  (cd "$tree" && CARGO_TARGET_DIR=$target $cargo test --quiet --profile simulate --features simulation --test simulation -- SECONDS=120 SHRINK=0 PICTURE="$picture" >"$log" 2>&1) || true
  for file in "${files[@]}"; do cat "$tree.sound/queue/$file" >"$tree/src/queue/$file"; done
  dropped=$((dropped + 1))
  if grep -q '^after ' "$log"; then
    echo "sabotage: $condition: built in $built s, found $(grep '^after ' "$log"), $(grep -o 'fails: [a-z]*' "$log" | head -1 | cut -c8-)"
  else
    missed+=("$condition")
    echo "sabotage: $condition: built in $built s, NOT found: $(tail -1 "$log")"
  fi
}

conditions() {
  drop 'head: the predecessor was the head of the listing' \
    wait.rs 's/head: predecessor_is_head && /head: /'
  drop 'head: the event is a deletion' \
    wait.rs 's/let deleted = event == NodeEvent::Deleted;/let deleted = event != NodeEvent::SessionOver;/'
  drop 'stand-by: it lists, and admits nobody' \
    wait.rs 's/(deleted\(&watch\.node\);\n                \}\n                )Some\(Event::List\)/$1Some(Event::Admitted)/'

  drop 'passing on: by the loss policy of the next one' \
    driver.rs 's/lease\.terms\(kind,/lease.terms(crate::session::lease::LossPolicy::SessionExpired.into(),/'
  drop 'passing on: only the present hold gives back' \
    local_queue.rs 's/NodeState::Held\(mut node\) if node\.holds\.contains\(&hold\) => \{\n(\s+)node\.holds\.remove\(&hold\);/NodeState::Held(mut node) if self.hold >= hold => {\n$1node.holds.clear();/' \
    local_queue.rs 's/any\(\|node\| node\.holds\.contains\(&hold\)\)/any(|node| !node.holds.is_empty() \&\& self.hold >= hold)/'
  drop 'passing on: the hold is over first' \
    driver.rs 's/let end = state\.finish\(End::Released\);/let end = state.end().unwrap_or(End::Released);/'
  drop 'passing on: nobody asked for it to be given up' \
    local_queue.rs 's/ && !conditions\.given_up//'
  drop 'passing on: same data and ACLs' \
    local_queue.rs 's/self\.node == next\.node/true/'
  drop 'passing on: to those that asked before the news' \
    local_queue.rs 's/let joined_in_time = ticket < node\.ticket_limit;/let joined_in_time = true;/'
  drop 'passing on: the watch has not fired' \
    driver.rs 's/watch\.lock\(\)\.has_fired\(\)/{ let _ = watch; false }/'
  drop 'seat: those that wait have one after a release' \
    local_queue.rs 's/self\.open\(!is_held, closing, out\);/let _ = closing;/'
  drop 'create: an unknown outcome is resolved' \
    create.rs 's/let Some\(\(node, placement\)\) = creating\.resolved\(callers\)\.await\? else/creating.room = None;\n                let Some((node, placement)) = None::<(OwnedNode, Placement)> else/'
  drop 'create: a node that is found is adopted only from the own session' \
    create.rs 's/Ok\(node\) if node\.owner == session\.session_id\(\) =>/Ok(node) =>/'

  drop 'gap: any event of the parent discards what is known' \
    path_nodes.rs 's/watch\.fired\(\)\.is_none\(\) && !link\.has_changed\(\)/!link.has_changed()/'
  drop 'gap: the listing showed nobody else' \
    path_nodes.rs 's/\|\| strangers == 0 && /|| /'
  drop 'gap: exactly the number that was expected' \
    rules/gap.rs 's/sequence\.wrapping_mul\(2\) == self\.0/sequence.wrapping_mul(2) >= self.0/'
  drop 'gap: unmatched creates are of that incarnation' \
    rules/gap.rs 's/self\.unmatched\.retain\([^;]*;//'

  drop 'read-write: head: for readers only' \
    wait.rs 's/ && \(is_exclusive \|\| node\.znode\.shared\)//'
  drop 'read-write: gap: readers keep a writer out' \
    path_nodes.rs 's/!\(znode\.shared && own\.shared\)/!own.shared/'
  drop 'read-write: gap: a writer keeps readers out' \
    path_nodes.rs 's/!\(znode\.shared && own\.shared\)/!znode.shared/'
  drop 'read-write: a read begins while the write hold is there' \
    create.rs 's/write_while_there\(write\.node\(\),/write_while_there(request.path.as_str(),/'
  drop 'sharing: a reader joins no node that a writer waits behind' \
    path_nodes.rs 's/\n\s+&& !is_busy\(&listing\.children, &self\.family, true\)//'
  drop 'sharing: a node that drains is deleted after its last hold' \
    local_queue.rs 's/(node\.holds\.remove\(&hold\);\n\s+)if node\.holds\.is_empty\(\) \{(\n\s+out\.push\(Command::Delete)/$1if true {$2/'
  drop 'sharing: a write node with a read alongside is not passed on' \
    driver.rs 's/ \|\| znode\.is_accompanied\(\)//'
  drop 'permits: those that are kept go with the mutex' \
    passed_permits.rs 's/if state\.in_line == 0 \|\| !self\.mutex\.is_held\(\)/if state.in_line == 0/'
  drop 'leases: strangers of the last listing count' \
    path_nodes.rs 's/Position::Among\(state\.strangers \+ state\.own\.len\(\)\)/Position::Among(state.own.len())/'
  drop 'slots: an index has a mutex' \
    ../recipes/slots/mod.rs 's/path: self\.path_of\(index\),/path: self.path_of(index).below(&random::guid().to_string()),/'

  drop 'answers: an error has a cause' \
    ../recipes/shared/contender.rs 's/let entry = self\.owner_entry\(\);/static CALLS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(1);\n        if matches!(patience, Patience::Forever) \&\& CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 10 == 0 {\n            return Err(Error::unavailable(\&self.recipe.path, None));\n        }\n        $&/'
  drop 'answers: busy has a cause' \
    ../recipes/shared/contender.rs 's/let entry = self\.owner_entry\(\);/static CALLS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(1);\n        if matches!(patience, Patience::NoWait { .. }) \&\& CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 10 == 0 {\n            return Err(Error::busy(\&self.recipe.path));\n        }\n        $&/'
  drop 'answers: a try waits for callers that leave enough permits' \
    ../recipes/semaphore/permits.rs 's/mutex: self\.mutex\.clone\(\),/mutex: {\n                let mut mutex = self.mutex.clone();\n                if matches!(patience, Patience::NoWait { .. }) {\n                    Arc::make_mut(\&mut mutex).waiter_mut().no_wait = true;\n                }\n                mutex\n            },/'
  drop 'answers: a deadline that ends behind nobody is not busy' \
    ../recipes/shared/recipe.rs 's/_ if is_queued\(\) =>/_ if is_queued() || true =>/'

  drop 'answers: a deadline is kept' \
    ../recipes/shared/recipe.rs 's/match timeout_at\(deadline, answered\)/match timeout_at(deadline + limit, answered)/'
  drop 'answers: a confirmed release has deleted the node' \
    hold.rs 's/ReleaseStep::Passed => return/ReleaseStep::Passed | ReleaseStep::Deleting(_) => return/'
  drop 'answers: a token is that of the node' \
    hold.rs 's/FencingToken::new\(znode\.czxid\)/FencingToken::new(znode.czxid + 1)/'

  drop 'count: a write compares the version' \
    ../recipes/shared_count/requests.rs 's/value, Some\(expected\.version\)\)/value, None)/'
  drop 'count: an older count is not published' \
    ../recipes/shared_count/latest.rs 's/let is_newer = count\.zxid > latest\.zxid;/let is_newer = count.zxid != latest.zxid;/'
  drop 'count: the node is followed' \
    ../recipes/shared_count/follow.rs 's/_ = follower\.changed\(limit\) => false/() = std::future::pending(), if limit.is_some() || true => false/'

  drop 'once: the holder looks for the record before it runs' \
    ../recipes/once.rs 's/self\.done_before\(&guard\)\.await\?/None::<Record>/'
  drop 'once: a body that failed leaves no record' \
    ../recipes/once.rs 's/            Err\(error\) => \{\n                release\(guard\)\.await;/            Err(error) => {\n                let _ = self.record(&guard).await;\n                release(guard).await;/'

  drop 'once: a clean-up keeps the newest' \
    ../recipes/once.rs 's/records\.sort\(\);/records.sort();\n        records.reverse();/'
  drop 'once: a clean-up keeps as many as it should' \
    ../recipes/once.rs 's/records\.len\(\)\.saturating_sub\(self\.kept\)/records.len() + 1 - self.kept/'
  drop 'once: a clean-up is alone' \
    ../recipes/once.rs 's/child\("cleanup"\)/child(\&format!("cleanup-{}", crate::random::guid()))/'
  drop 'once: old records are removed' \
    ../recipes/once.rs 's/        self\.remove_old\(\)\.await;\n//'
  drop 'fenced: the node of the hold is there' \
    ../recipes/shared/fenced.rs 's/write_while_there\(self\.hold\.node\(\), /write_while_there("\/data", /'
  drop 'fenced: nothing is written after the hold' \
    ../recipes/shared/fenced.rs 's/let writing = self\.hold\.fence\(send\)\.map_err\(over\)\?;/let writing = send();\n        let _ = \&over;/'

  drop 'lease: two thirds of the session timeout, and not three of them' \
    ../session/lease/anchor.rs 's/by_probe\.min\(by_anchor\)/{ let _ = (by_probe, by_anchor); stamp.after(self.timeout * 3) }/'
  drop 'lease: a read renews nothing' \
    ../session/session.rs 's/client\.sync\(\)\.await;\n(\s*let counts)/client.exists("\/").await.map(drop);\n$1/'
  drop 'lease: a term begins only under an anchor that the next probes carry on' \
    ../session/lease/anchor.rs 's/let next = Probe \{ stamp: now,/return true;\n#[allow(unreachable_code)]\n$&/'
}

conditions
[ "$dropped" -gt 0 ] || { echo "sabotage: no condition is called that"; exit 1; }
echo "sabotage: of $dropped conditions dropped, ${#missed[@]} were not found"
[ ${#missed[@]} = 0 ]
