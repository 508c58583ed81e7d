#!/usr/bin/env bash
# Checks the files that other programs read: GitHub's workflows and forms, and the examples in `deploy`. `scripts/setup.sh files`
# installs the checkers. That alerts and dashboard name real metrics is what a house test looks at.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=${CARGO_TARGET_DIR:-$PWD/target}/checkers/bin:$PATH

schema() { check-jsonschema --builtin-schema "vendor.$1" "${@:2}"; }

schema github-workflows .github/workflows/*.yml
schema github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
schema github-issue-config .github/ISSUE_TEMPLATE/config.yml
schema dependabot .github/dependabot.yml
schema compose-spec deploy/compose.yaml
zizmor --quiet --offline .github
kubernetes-validate --strict deploy/kubernetes/*.yaml
promtool check rules deploy/prometheus/alerts.yml
promtool test rules deploy/prometheus/alerts_test.yml

# The queries of the dashboard, as rules: promtool knows no other file with queries.
rules=$(mktemp)
trap 'rm -f "$rules"' EXIT
{
  printf 'groups:\n- name: dashboard\n  rules:\n'
  sed -n 's/^ *"expr": \(".*"\),$/\1/p' deploy/grafana/dashboard.json |
    sed -E 's/\$__(rate_interval|range)/5m/g; s/.*/  - {record: "query", expr: &}/'
} >"$rules"
promtool check rules --lint=none "$rules"
