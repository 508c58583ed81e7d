# Sourced by scripts that build the tests once and run them one by one.

cargo=${CARGO:-cargo}
export ZOOKEEPER_BACKEND=${ZOOKEEPER_BACKEND:-process}
# One selection of packages and features for all builds: another one would build the library again.
packages=(-p zookeeper-recipes -p zookeeper-testkit -p zklock -p tools)
features=(--features zookeeper-recipes/metrics,zookeeper-recipes/sasl,zookeeper-recipes/simulation,zookeeper-recipes/tls)
programs=${CARGO_TARGET_DIR:-target}/debug
artifacts=$(mktemp)

tests() { $cargo test --quiet --no-fail-fast "${packages[@]}" "${features[@]}" "$@"; }

# Builds, and notes where the executables are. `cargo test --test NAME` would narrow the selection to the packages that have
# such a test, which changes the features of what they share.
build() {
  local started=$SECONDS
  tests --no-run --message-format=json-render-diagnostics "$@" >"$artifacts"
  printf '== build: %d s\n' $((SECONDS - started))
}

# Name, arguments: runs the tests of that name, or the unit tests of that library, in the folder of the package, as cargo does.
run() {
  local line folder
  line=$(grep -E "\"kind\":\[\"(test|lib)\"\].*\"name\":\"$1\".*\"executable\":\"" "$artifacts") || { echo "no test $1 was built"; return 1; }
  folder=$(sed 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*|\1|' <<<"$line")
  (cd "$folder" && "$(sed 's|.*"executable":"\([^"]*\)".*|\1|' <<<"$line")" --quiet "${@:2}")
}

# The tests of the library on real servers.
on_real_servers() { WORLD=real run library --test-threads=12 "$@"; }

# So many random scripts on a simulated and on a real server.
conformance() { SCRIPTS=$1 run zookeeper_recipes --nocapture --ignored client::seam_equivalence; }

# The names of the tests that failed in a log, each on an indented line.
failed_tests() {
  awk '/^failures:$/ { names = "" }
    /^    [^ ]/ { names = names $0 "\n" }
    /^test result: FAILED/ { printf "%s", names }' "$1"
}
