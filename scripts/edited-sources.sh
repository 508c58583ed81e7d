# Sourced by scripts that build the sources with one edit after the other, in a copy of them.

cargo=${CARGO:-cargo}

# NAME: copies the sources below target/NAME. The copy has a target folder of its own, because in a shared one cargo takes a binary of
# the edited sources for that of the sound ones.
copy_sources() {
  script=$1
  mkdir -p "${CARGO_TARGET_DIR:-target}/$script"
  kept=$(cd "${CARGO_TARGET_DIR:-target}/$script" && pwd)
  tree=$kept/tree
  log=$kept/log
  export CARGO_TARGET_DIR=$kept/target
  rm -rf "$tree" "$tree.sound"
  mkdir -p "$tree"
  # New modification times: cargo may have built a later version of these files.
  git ls-files -coz --exclude-standard | while IFS= read -r -d '' file; do
    if [ -e "$file" ]; then printf '%s\0' "$file"; fi
  done | tar c --null -T - | tar xm -C "$tree"
  cp -r "$tree/src" "$tree.sound"
}

# Reads the next row: sets `name`, `file` below src, and `rest`. Blank lines and comments are no rows. An edit may contain ` | ` too.
read_row() {
  local line=
  while [ -z "$line" ] || [[ $line = \#* ]]; do
    IFS= read -r line || return 1
  done
  name=${line%% | *} rest=${line#* | }
  file=${rest%% | *} rest=${rest#* | }
}

# EDIT in Perl, COMMAND...: edits the file of the row, and builds the tests that the command runs.
build_edited() {
  perl -0pi -e "$1 or die \"the pattern is not in the file\\n\"" "$tree/src/$file" ||
    { echo "$script: $name: cannot be made in $file"; exit 1; }
  if ! build "${@:2}" && ! { forget_incremental_state && build "${@:2}"; }; then
    cat "$log"
    echo "$script: $name: does not compile"
    exit 1
  fi
}

build() { (cd "$tree" && "$@" --no-run >"$log" 2>&1); }

# True if the compiler failed, and not the source: rustc 1.95 takes some of its own incremental state for unstable.
forget_incremental_state() {
  grep -q 'internal compiler error' "$log" && rm -rf "$CARGO_TARGET_DIR"/*/incremental
}

restore_source() { cat "$tree.sound/$file" >"$tree/src/$file"; }
