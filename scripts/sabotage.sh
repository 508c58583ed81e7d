#!/usr/bin/env bash
# Drops the conditions of the rules that save round trips, of the lease, of the lost create and of the answers, one at a time in a copy of the
# sources, and searches with the simulation until the judge finds it. Takes `all`, or a pattern of the conditions to be dropped.
# A row is: condition | file below src | edit in Perl, whose pattern has to be in the file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

. scripts/edited-sources.sh
copy_sources sabotage
only="$*"
[ "$only" != all ] || only=
dropped=0 missed=()
simulation=("$cargo" test --quiet --profile simulate --features simulation --test simulation)

while read_row; do
  if [ -n "$only" ] && ! [[ $name =~ $only ]]; then continue; fi
  started=$SECONDS
  build_edited "$rest" "${simulation[@]}"
  built=$((SECONDS - started))
  picture=$kept/$(tr -cs 'a-z0-9\n' - <<<"$name").svg
  (cd "$tree" && "${simulation[@]}" -- SECONDS=120 SHRINK=0 PICTURE="$picture" >"$log" 2>&1 </dev/null) || true
  restore_source
  dropped=$((dropped + 1))
  if grep -q '^after ' "$log"; then
    echo "sabotage: $name: built in $built s, found $(grep '^after ' "$log"), $(grep -o 'fails: [a-z]*' "$log" | head -1 | cut -c8-)"
  else
    missed+=("$name")
    echo "sabotage: $name: built in $built s, NOT found: $(tail -1 "$log")"
  fi
done <<'ROWS'
head: the predecessor was the head of the listing | queue/rules/admission.rs | s/admits: is_head && /admits: /
head: the event is a deletion | queue/wait.rs | s/let deleted = event == NodeEvent::Deleted;/let deleted = event != NodeEvent::SessionOver;/
stand-by: it lists, and admits nobody | queue/wait.rs | s/(deleted\(&watch\.name\);\n                \}\n                )Some\(Event::List\)/$1Some(Event::Admitted)/

passing on: by the loss policy of the next one | queue/driver.rs | s/lease\.terms\(kind,/lease.terms(crate::session::lease::LossPolicy::SessionExpired.into(),/
passing on: only the present hold gives back | queue/local_queue.rs | s/NodeState::Held\(mut node\) if node\.holds\.contains\(&hold\) => \{\n(\s+)node\.holds\.remove\(&hold\);/NodeState::Held(mut node) if self.hold >= hold => {\n$1node.holds.clear();/ && s/any\(\|node\| node\.holds\.contains\(&hold\)\)/any(|node| !node.holds.is_empty() \&\& self.hold >= hold)/
passing on: the hold is over first | queue/driver.rs | s/let end = state\.finish\(End::Released\);/let end = state.end().unwrap_or(End::Released);/
passing on: nobody asked for it to be given up | queue/local_queue.rs | s/ && !conditions\.given_up//
passing on: same data and ACLs | queue/local_queue.rs | s/self\.node == next\.node/true/
passing on: to those that asked before the news | queue/local_queue.rs | s/let joined_in_time = ticket < node\.ticket_limit;/let joined_in_time = true;/
passing on: the watch has not fired | queue/driver.rs | s/watch\.lock\(\)\.has_fired\(\)/{ let _ = watch; false }/
seat: those that wait have one after a release | queue/local_queue.rs | s/self\.open\(!is_held, closing, out\);/let _ = closing;/
create: an unknown outcome is resolved | queue/create.rs | s/let Some\(\(node, placement\)\) = creating\.resolved\(callers\)\.await\? else/creating.room = None;\n                let Some((node, placement)) = None::<(OwnedNode, Placement)> else/
create: a node that is found is adopted only from the own session | queue/create.rs | s/Ok\(node\) if node\.owner == session\.session_id\(\) =>/Ok(node) =>/

gap: any event of the parent discards what is known | queue/path_nodes.rs | s/watch\.fired\(\)\.is_none\(\) && !link\.has_changed\(\)/!link.has_changed()/
gap: the listing showed nobody else | queue/path_nodes.rs | s/\|\| strangers == 0 && /|| /
gap: exactly the number that was expected | queue/rules/gap.rs | s/sequence\.wrapping_mul\(2\) == self\.0/sequence.wrapping_mul(2) >= self.0/
gap: unmatched creates are of that incarnation | queue/rules/gap.rs | s/self\.unmatched\.retain\([^;]*;//

read-write: head: for readers only | queue/rules/admission.rs | s/admits: is_head && \(is_exclusive \|\| mine\.shared\)/admits: is_head/
read-write: gap: readers keep a writer out | queue/path_nodes.rs | s/!\(znode\.shared && own\.shared\)/!own.shared/
read-write: gap: a writer keeps readers out | queue/path_nodes.rs | s/!\(znode\.shared && own\.shared\)/!znode.shared/
read-write: a read begins while the write hold is there | queue/create.rs | s/write_while_there\(write\.node\(\),/write_while_there(request.path.as_str(),/
sharing: a reader joins no node that a writer waits behind | queue/path_nodes.rs | s/\n\s+&& !is_busy\(&listing\.children, &self\.family, true\)//
sharing: a node that drains is deleted after its last hold | queue/local_queue.rs | s/(node\.holds\.remove\(&hold\);\n\s+)if node\.holds\.is_empty\(\) \{(\n\s+out\.push\(Command::Delete)/$1if true {$2/
sharing: a write node with a read alongside is not passed on | queue/driver.rs | s/ \|\| znode\.is_accompanied\(\)//
permits: those that are kept go with the mutex | queue/passed_permits.rs | s/if state\.in_line == 0 \|\| !self\.mutex\.is_held\(\)/if state.in_line == 0/
leases: strangers of the last listing count | queue/path_nodes.rs | s/Position::Among\(state\.strangers \+ state\.own\.len\(\)\)/Position::Among(state.own.len())/
slots: an index has a mutex | recipes/slots/mod.rs | s/path: self\.path_of\(index\),/path: self.path_of(index).below(&random::guid().to_string()),/

answers: an error has a cause | recipes/shared/contender.rs | s/let entry = self\.owner_entry\(\);/static CALLS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(1);\n        if matches!(patience, Patience::Forever) \&\& CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 10 == 0 {\n            return Err(Error::unavailable(\&self.recipe.path, None));\n        }\n        $&/
answers: busy has a cause | recipes/shared/contender.rs | s/let entry = self\.owner_entry\(\);/static CALLS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(1);\n        if matches!(patience, Patience::NoWait { .. }) \&\& CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 10 == 0 {\n            return Err(Error::busy(\&self.recipe.path));\n        }\n        $&/
answers: a try waits for callers that leave enough permits | recipes/semaphore/permits.rs | s/mutex: self\.mutex\.clone\(\),/mutex: {\n                let mut mutex = self.mutex.clone();\n                if matches!(patience, Patience::NoWait { .. }) {\n                    Arc::make_mut(\&mut mutex).waiter_mut().no_wait = true;\n                }\n                mutex\n            },/
answers: a deadline that ends behind nobody is not busy | recipes/shared/recipe.rs | s/_ if is_queued\(\) =>/_ if is_queued() || true =>/

answers: a deadline is kept | recipes/shared/recipe.rs | s/match timeout_at\(deadline, answered\)/match timeout_at(deadline + limit, answered)/
answers: a confirmed release has deleted the node | queue/hold.rs | s/ReleaseStep::Passed => return/ReleaseStep::Passed | ReleaseStep::Deleting(_) => return/
answers: a token is that of the node | queue/hold.rs | s/FencingToken::new\(znode\.czxid\)/FencingToken::new(znode.czxid + 1)/

count: a write compares the version | recipes/shared_count/requests.rs | s/value, Some\(expected\.version\)\)/value, None)/
count: an older count is not published | recipes/shared_count/latest.rs | s/let is_newer = count\.zxid > latest\.zxid;/let is_newer = count.zxid != latest.zxid;/
count: the node is followed | recipes/shared_count/follow.rs | s/_ = follower\.changed\(limit\) => false/() = std::future::pending(), if limit.is_some() || true => false/

once: the holder looks for the record before it runs | recipes/once.rs | s/self\.done_before\(&guard\)\.await\?/None::<Record>/
once: a body that failed leaves no record | recipes/once.rs | s/            Err\(error\) => \{\n                release\(guard\)\.await;/            Err(error) => {\n                let _ = self.record(&guard).await;\n                release(guard).await;/

once: a clean-up keeps the newest | recipes/once.rs | s/records\.sort\(\);/records.sort();\n        records.reverse();/
once: a clean-up keeps as many as it should | recipes/once.rs | s/records\.len\(\)\.saturating_sub\(self\.kept\)/records.len() + 1 - self.kept/
once: a clean-up is alone | recipes/once.rs | s/below\("cleanup"\)/below(\&format!("cleanup-{}", crate::random::guid()))/
once: old records are removed | recipes/once.rs | s/        self\.remove_old\(\)\.await;\n//
fenced: the node of the hold is there | recipes/shared/fenced.rs | s/write_while_there\(self\.hold\.node\(\), /write_while_there("\/data", /
fenced: nothing is written after the hold | recipes/shared/fenced.rs | s/let writing = self\.hold\.fence\(send\)\.map_err\(over\)\?;/let writing = send();\n        let _ = \&over;/

lease: two thirds of the session timeout, and not three of them | session/lease/anchor.rs | s/by_probe\.min\(by_anchor\)/{ let _ = (by_probe, by_anchor); stamp.after(self.timeout * 3) }/
lease: a read renews nothing | session/session.rs | s/client\.sync\(\)\.await;\n(\s*let counts)/client.exists("\/").await.map(drop);\n$1/
lease: a term begins only under an anchor that the next probes carry on | session/lease/anchor.rs | s/let next = Probe \{ stamp: now,/return true;\n#[allow(unreachable_code)]\n$&/
ROWS

[ "$dropped" -gt 0 ] || { echo "sabotage: no condition is called that"; exit 1; }
echo "sabotage: of $dropped conditions dropped, ${#missed[@]} were not found"
[ ${#missed[@]} = 0 ]
