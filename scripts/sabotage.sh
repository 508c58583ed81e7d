#!/usr/bin/env bash
# Drops the conditions of the rules that save round trips, one at a time in a copy of the sources, and shows that a
# test fails each time. Takes some words of the conditions to be dropped; without, all are.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
mkdir -p "${CARGO_TARGET_DIR:-target}/sabotage"
kept=$(cd "${CARGO_TARGET_DIR:-target}/sabotage" && pwd)
tree=$kept/tree
log=$kept/log
only="$*"
dropped=0

rm -rf "$tree" "$tree.sound"
mkdir -p "$tree"
# With new times: the last run may have built a version that was edited later than these files.
git ls-files -coz --exclude-standard | while IFS= read -r -d '' file; do
  if [ -e "$file" ]; then printf '%s\0' "$file"; fi
done | tar c --null -T - | tar xm -C "$tree"
cp -r "$tree/src/contender" "$tree.sound"

# target, test: exits as the test does.
run() {
  local target=(--test "$1")
  [ "$1" != lib ] || target=(--lib)
  (
    cd "$tree"
    export CARGO_TARGET_DIR=$kept/target
    $cargo test --quiet --all-features "${target[@]}" --no-run >"$log" 2>&1 || exit 99
    timeout -k 5 180 $cargo test --quiet --all-features "${target[@]}" -- --exact "$2" >"$log" 2>&1
  )
}

declare -A sound
# condition, target, test, then pairs of a file below src/contender and an edit in Perl's words, whose pattern must
# be there.
drop() {
  local condition=$1 target=$2 test=$3 file code=0 files=()
  shift 3
  if [ -n "$only" ] && [[ $condition != *"$only"* ]]; then return; fi
  if [ "$pass" = sound ]; then
    [ -z "${sound[$test]:-}" ] || return 0
    run "$target" "$test" || { cat "$log"; echo "sabotage: $test fails by itself"; exit 1; }
    grep -q '1 passed' "$log" || { echo "sabotage: there is no test $test"; exit 1; }
    sound[$test]=yes
    return
  fi
  while [ $# -gt 0 ]; do
    file=$tree/src/contender/$1
    perl -0pi -e "$2 or die \"the pattern is not there any more\\n\"" "$file" ||
      { echo "sabotage: $condition: cannot be dropped in $1"; exit 1; }
    files+=("$1")
    shift 2
  done
  run "$target" "$test" || code=$?
  for file in "${files[@]}"; do cat "$tree.sound/$file" >"$tree/src/contender/$file"; done
  case $code in
    0) echo "sabotage: $condition: NOT caught by $test"; exit 1 ;;
    99) cat "$log"; echo "sabotage: $condition: does not compile"; exit 1 ;;
  esac
  grep -q 'test result: FAILED' "$log" ||
    { cat "$log"; echo "sabotage: $condition: $test did not come to its end"; exit 1; }
  dropped=$((dropped + 1))
  echo "sabotage: $condition: caught by $test"
}

conditions() {
  drop 'head: the predecessor was the first of the listing' \
    library round_trips::head::a_predecessor_that_gives_up_admits_nobody \
    wait.rs 's/head: rules\.head\s*&& predecessor_is_head\s*&&/head: rules.head \&\&/'
  drop 'head: the listing follows the own create' \
    library round_trips::counts::the_first_acquire_learns_what_the_next_needs \
    enter.rs 's/(let stamp = Moment::now\(\);\n)(.*?)(            let list = list\.then[^\n]*\n)/$1$3$2/s'
  drop 'head: the event is a deletion' \
    library round_trips::head::a_change_of_the_predecessors_data_admits_nobody \
    watches.rs 's/let deleted = event == NodeEvent::Deleted;/let deleted = event != NodeEvent::SessionOver;/'
  # Three lines see to it, each of which is enough when both events are there.
  drop 'head: the own watch has not fired, and is looked at first' \
    library round_trips::head::who_lost_its_own_node_first_is_not_admitted_by_the_predecessors_deletion \
    watches.rs 's/biased;\n            event = fired\(&mut self\.own\)/biased;\n            event = fired(&mut self.own), if !ahead.head/' \
    watches.rs 's/own\.order < order && own\.watch\.fired\(\)\.is_none\(\)/own.order < order/' \
    watches.rs 's/own\.watch\.fired\(\)\.is_none\(\)\)\n    \}/own.order > 0)\n    }/'
  drop 'head: the own watch was armed before' \
    library round_trips::head::an_own_watch_that_was_armed_again_lists \
    watches.rs 's/own\.order < order && //'
  drop 'head: the same link' \
    library round_trips::head::after_a_reconnect_the_deletion_lists \
    watches.rs 's/ahead\.head && is_ours_there && same_link/ahead.head && is_ours_there/'
  drop 'stand-by: it lists, and admits nobody' \
    library round_trips::stand_by::the_release_of_the_one_it_stands_by_for_admits_only_its_successor \
    watches.rs 's/self\.stand_by = None;\n                Some\(Event::Look\)/self.stand_by = None;\n                Some(Event::Admitted)/'

  drop 'local: the predecessor was first' \
    library round_trips::local::a_predecessor_that_gives_up_admits_nobody \
    local.rs 's/next\.before = before;\n\s*return None;/next.before = Before::Nobody;\n Turn::Next/'
  drop 'local: the predecessor was first, and did not wait for a stranger' \
    library round_trips::local::a_predecessor_that_gives_up_waiting_for_a_stranger_admits_nobody \
    local.rs 's/next\.before = Before::Unknown;\n\s*Turn::Look/next.before = Before::Nobody;\n Turn::Next/'
  drop 'local: the predecessor left by itself' \
    library round_trips::local::a_hold_that_is_deleted_by_somebody_else_admits_nobody_at_once \
    local.rs 's/Before::Nobody if by_itself =>/Before::Nobody =>/'
  drop 'local and gap: both are of this epoch' \
    library round_trips::local_ends::a_session_that_is_killed_with_waiters_serves_them_all_in_the_next \
    mod.rs 's/Some\(lines\) if Arc::ptr_eq\(&lines\.epoch, epoch\) =>/Some(lines) =>/'
  drop 'local: fenced writes are closed before' \
    library round_trips::fence::a_fenced_write_after_the_release_is_not_sent \
    hold.rs 's/let end = self\.state\.finish\(Loss::Released\);/let end = self.state.end().unwrap_or(Loss::Released);/'
  drop 'local: the last fenced write went out on this connection' \
    library round_trips::fence::behind_a_broken_link_the_next_one_waits_for_the_delete \
    place.rs 's/if ahead \{ HandOver::AtOnce \} else \{ HandOver::WhenGone \}/HandOver::AtOnce/'
  drop 'local: and so did those before it' \
    library round_trips::fence::a_later_write_does_not_make_up_for_one_that_was_broken_off \
    hold.rs 's/if fenced\.is_none\(\) \{/{/'
  drop 'local: the delete was sent before' \
    library round_trips::fence::the_delete_is_sent_before_the_next_one_can_send_anything \
    place.rs 's/let send = \|\| delete\(&lines\.epoch, &spot\.node\);/let (epoch, node) = (lines.epoch.clone(), spot.node.clone());\n let send = || async move { delete(&epoch, &node).await };/'

  drop 'gap: any event of the parent discards what is known' \
    library round_trips::incarnations::a_path_made_again_is_listed \
    parent.rs 's/watch\.fired\(\)\.is_none\(\) && !link\.has_changed\(\)/!link.has_changed()/'
  # It is asked twice on the way.
  drop 'gap: the event counts that comes right before the answer' \
    library round_trips::incarnations::a_path_made_again_unheard_is_listed \
    parent.rs 's/self\.knows\(\);\n(\s*let sequence)/$1/' \
    line.rs 's/if self\.parent\.knows\(\) \{\n(\s*return self\.tickets)/if !self.tickets.is_empty() {\n$1/'
  drop 'gap: the same link' \
    library round_trips::gap::after_a_reconnect_it_lists_and_watches_again \
    parent.rs 's/watch\.fired\(\)\.is_none\(\) && !link\.has_changed\(\)/watch.fired().is_none()/'
  drop 'gap: the watch was answered before the listing' \
    library round_trips::incarnations::a_path_made_again_before_the_watch_is_not_mistaken_for_the_one_that_was_listed \
    enter.rs 's/(            let watch = watch\.then[^\n]*\n)(            let list = list\.then[^\n]*\n)/$2$1/'
  drop 'gap: the listing showed nobody else' \
    library round_trips::gap::a_listing_that_shows_a_stranger_is_not_built_on \
    line.rs 's/if more > 0 && !leases/if false \&\& more > 0 \&\& !leases/' \
    line.rs 's/leases\s*\|\| strangers == 0 && \(/leases || (/'
  drop 'gap: exactly the number that was expected' \
    library round_trips::gap::somebody_who_came_in_between_is_waited_for \
    gap.rs 's/sequence\.wrapping_mul\(2\) == self\.0/sequence.wrapping_mul(2) >= self.0/'
  drop 'gap: the node is of the incarnation that is known of' \
    lib contender::gap::tests::a_node_of_an_earlier_incarnation_does_not_count \
    gap.rs 's/\n\s*&& czxid > known\.incarnation//'
  drop 'gap: what was noted is of that incarnation' \
    lib contender::gap::tests::a_node_of_an_earlier_incarnation_does_not_count \
    gap.rs 's/self\.noted\.retain\([^;]*;//'

  drop 'read-write: head: for readers only' \
    library round_trips::read_write::a_down_graded_read_keeps_out_the_writer_that_waits \
    wait.rs 's/\s*&& \(line\.family\.is_exclusive\(\) \|\| spot\.shared\)//'
  drop 'read-write: local: not at all' \
    library round_trips::read_write::a_down_graded_read_keeps_out_a_writer_of_the_same_client \
    shortcuts.rs 's/self\.local && exclusive/self.local/'
  drop 'read-write: gap: readers keep a writer out' \
    library round_trips::read_write::a_writer_of_ours_waits_for_a_reader_of_ours \
    line.rs 's/else \{ self\.chain\.len\(\) - 1 \}/else { self.chain.exclusive() - 1 }/'
  drop 'read-write: gap: a writer keeps readers out' \
    library round_trips::read_write::a_reader_of_ours_waits_for_a_writer_of_ours \
    line.rs 's/if spot\.shared \{ self\.chain\.exclusive\(\) \}/if spot.shared { 0 }/'
  drop 'read-write: a read begins while the write hold is there' \
    library recipes::read_write_down::a_read_beside_a_write_node_that_an_administrator_deleted_is_refused \
    enter.rs 's/write_while_there\(write\.node\(\),/write_while_there(request.path.as_str(),/'

  drop 'leases: strangers of the last listing count' \
    library round_trips::leases::a_strangers_lease_counts_where_nothing_is_listed \
    line.rs 's/Verdict::Among\(self\.strangers \+ self\.chain\.len\(\)\)/Verdict::Among(self.chain.len())/'
  drop 'release: the caretaker sees to it when the caller does not' \
    library recipes::mutex_dropped::a_release_that_is_not_polled_any_more_goes_on \
    care.rs 's/line\.overdue\(since\)/line.overdue(since.before(patience * 1000))/'
  drop 'release: and when the epoch is left to others' \
    library recipes::mutex_dropped::a_release_that_is_not_polled_any_more_is_done_before_close \
    line.rs 's/standing\.chain\(forsaken[^;]*?\)\.collect\(\)/standing.collect()/'
}

# All of them pass as it is, which takes one build.
pass=sound
conditions
pass=dropped
conditions
[ "$dropped" -gt 0 ] || { echo "sabotage: no condition is called that"; exit 1; }
echo "sabotage: $dropped conditions dropped, and each was missed"
