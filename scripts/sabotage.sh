#!/usr/bin/env bash
# Drops the conditions of the rules that save round trips, of the lease and of the lost create, one at a time in a copy of the
# sources, and searches with the simulation until the judge finds it. Takes `all`, or a pattern of the conditions to be dropped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
mkdir -p "${CARGO_TARGET_DIR:-target}/sabotage"
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
kept=$target/sabotage
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

# condition, then pairs of a file below src/contender and an edit in Perl's words, whose pattern must be there.
drop() {
  local condition=$1 file started=$SECONDS built files=()
  shift
  if [ -n "$only" ] && ! [[ $condition =~ $only ]]; then return; fi
  while [ $# -gt 0 ]; do
    file=$tree/src/contender/$1
    perl -0pi -e "$2 or die \"the pattern is not there any more\\n\"" "$file" ||
      { echo "sabotage: $condition: cannot be dropped in $1"; exit 1; }
    files+=("$1")
    shift 2
  done
  (cd "$tree" && CARGO_TARGET_DIR=$target $cargo test --quiet --profile simulate --features simulation --test simulation --no-run >"$log" 2>&1) ||
    { cat "$log"; echo "sabotage: $condition: does not compile"; exit 1; }
  built=$((SECONDS - started))
  (cd "$tree" && CARGO_TARGET_DIR=$target $cargo test --quiet --profile simulate --features simulation --test simulation -- SECONDS=120 SHRINK=0 >"$log" 2>&1) || true
  for file in "${files[@]}"; do cat "$tree.sound/contender/$file" >"$tree/src/contender/$file"; done
  dropped=$((dropped + 1))
  if grep -q '^after ' "$log"; then
    echo "sabotage: $condition: built in $built s, found $(grep '^after ' "$log"), $(grep -o 'fails: [a-z]*' "$log" | head -1 | cut -c8-)"
  else
    missed+=("$condition")
    echo "sabotage: $condition: built in $built s, NOT found: $(tail -1 "$log")"
  fi
}

conditions() {
  drop 'head: the predecessor was the first of the listing' \
    wait.rs 's/head: rules\.head\s*&& predecessor_is_head\s*&&/head: rules.head \&\&/'
  drop 'head: the listing follows the own create' \
    enter.rs 's/(let stamp = Moment::now\(\);\n)(.*?)(            let list = list\.then[^\n]*\n)/$1$3$2/s'
  drop 'head: the event is a deletion' \
    watches.rs 's/let deleted = event == NodeEvent::Deleted;/let deleted = event != NodeEvent::SessionOver;/'
  # Three lines see to it, each of which is enough when both events are there.
  drop 'head: the own watch has not fired, and is looked at first' \
    watches.rs 's/biased;\n            event = fired\(&mut self\.own\)/biased;\n            event = fired(&mut self.own), if !ahead.head/' \
    watches.rs 's/own\.order < order && own\.watch\.fired\(\)\.is_none\(\)/own.order < order/' \
    watches.rs 's/own\.watch\.fired\(\)\.is_none\(\)\)\n    \}/own.order > 0)\n    }/'
  drop 'head: the own watch was armed before' \
    watches.rs 's/own\.order < order && //'
  drop 'head: the same link' \
    watches.rs 's/ahead\.head && is_ours_there && same_link/ahead.head && is_ours_there/'
  drop 'stand-by: it lists, and admits nobody' \
    watches.rs 's/self\.stand_by = None;\n                Some\(Event::Look\)/self.stand_by = None;\n                Some(Event::Admitted)/'

  drop 'local: the predecessor was first' \
    local.rs 's/next\.before = before;\n\s*return None;/next.before = Before::Nobody;\n Turn::Next/'
  drop 'local: the predecessor was first, and did not wait for a stranger' \
    local.rs 's/next\.before = Before::Unknown;\n\s*Turn::Look/next.before = Before::Nobody;\n Turn::Next/'
  drop 'local: the predecessor left by itself' \
    local.rs 's/Before::Nobody if by_itself =>/Before::Nobody =>/'
  drop 'local and gap: both are of this epoch' \
    mod.rs 's/Some\(lines\) if Arc::ptr_eq\(&lines\.epoch, epoch\) =>/Some(lines) =>/'
  drop 'local: fenced writes are closed before' \
    hold.rs 's/let end = self\.state\.finish\(Loss::Released\);/let end = self.state.end().unwrap_or(Loss::Released);/'
  drop 'local: the last fenced write went out on this connection' \
    place.rs 's/if ahead \{ HandOver::AtOnce \} else \{ HandOver::WhenGone \}/HandOver::AtOnce/'
  drop 'local: and so did those before it' \
    hold.rs 's/if fenced\.is_none\(\) \{/{/'
  drop 'local: the delete was sent before' \
    place.rs 's/let send = \|\| delete\(&lines\.epoch, &spot\.node\);/let (epoch, node) = (lines.epoch.clone(), spot.node.clone());\n let send = || async move { delete(&epoch, &node).await };/'

  drop 'gap: any event of the parent discards what is known' \
    parent.rs 's/watch\.fired\(\)\.is_none\(\) && !link\.has_changed\(\)/!link.has_changed()/'
  # It is asked twice on the way.
  drop 'gap: the event counts that comes right before the answer' \
    parent.rs 's/self\.knows\(\);\n(\s*let sequence)/$1/' \
    line.rs 's/if self\.parent\.knows\(\) \{\n(\s*return self\.tickets)/if !self.tickets.is_empty() {\n$1/'
  drop 'gap: the same link' \
    parent.rs 's/watch\.fired\(\)\.is_none\(\) && !link\.has_changed\(\)/watch.fired().is_none()/'
  drop 'gap: the watch was answered before the listing' \
    enter.rs 's/(            let watch = watch\.then[^\n]*\n)(            let list = list\.then[^\n]*\n)/$2$1/'
  drop 'gap: the listing showed nobody else' \
    line.rs 's/if more > 0 && !leases/if false \&\& more > 0 \&\& !leases/' \
    line.rs 's/leases\s*\|\| strangers == 0 && \(/leases || (/'
  drop 'gap: exactly the number that was expected' \
    gap.rs 's/sequence\.wrapping_mul\(2\) == self\.0/sequence.wrapping_mul(2) >= self.0/'
  drop 'gap: the node is of the incarnation that is known of' \
    gap.rs 's/\n\s*&& czxid > known\.incarnation//'
  drop 'gap: what was noted is of that incarnation' \
    gap.rs 's/self\.noted\.retain\([^;]*;//'

  drop 'read-write: head: for readers only' \
    wait.rs 's/\s*&& \(line\.family\.is_exclusive\(\) \|\| spot\.shared\)//'
  drop 'read-write: local: not at all' \
    shortcuts.rs 's/self\.local && exclusive/self.local/'
  drop 'read-write: gap: readers keep a writer out' \
    line.rs 's/else \{ self\.chain\.len\(\) - 1 \}/else { self.chain.exclusive() - 1 }/'
  drop 'read-write: gap: a writer keeps readers out' \
    line.rs 's/if spot\.shared \{ self\.chain\.exclusive\(\) \}/if spot.shared { 0 }/'
  drop 'read-write: a read begins while the write hold is there' \
    enter.rs 's/write_while_there\(write\.node\(\),/write_while_there(request.path.as_str(),/'

  drop 'leases: strangers of the last listing count' \
    line.rs 's/Verdict::Among\(self\.strangers \+ self\.chain\.len\(\)\)/Verdict::Among(self.chain.len())/'
  drop 'release: the caretaker sees to it when the caller does not' \
    care.rs 's/line\.overdue\(since\)/line.overdue(since.before(patience * 1000))/'
  drop 'release: and when the epoch is left to others' \
    line.rs 's/standing\.chain\(forsaken[^;]*?\)\.collect\(\)/standing.collect()/'

  drop 'create: a node that is found is adopted only from the own session' \
    enter.rs 's/Ok\(node\) if node\.owner == epoch\.session_id\(\) =>/Ok(node) =>/'
  drop 'lease: two thirds of the session timeout, and not three of them' \
    ../session/lease.rs 's/self\.timeout \* 2 \/ 3\)\.min\(anchor\.after\(self\.timeout \* 23 \/ 24\)\)/self.timeout * 3)/'
  drop 'lease: a read renews nothing' \
    ../session/epoch.rs 's/client\.sync\(\)\.await;\n(\s*let counts)/client.exists("\/").await.map(drop);\n$1/'
  drop 'lease: a term begins only under an anchor that the next probes carry on' \
    ../session/lease.rs 's/let next = \(now, now\.after\(timeout \* 5 \/ 28\)\);/return true;\n#[allow(unreachable_code)]\n$&/'
}

conditions
[ "$dropped" -gt 0 ] || { echo "sabotage: no condition is called that"; exit 1; }
echo "sabotage: of $dropped conditions dropped, ${#missed[@]} were not found"
[ ${#missed[@]} = 0 ]
