#!/usr/bin/env bash
# Runs a command with ZOOKEEPER_IMAGE set, where containers can be had; without, where they cannot.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -z "${ZOOKEEPER_CONNECT:-}" ] && [ "${ZOOKEEPER_BACKEND:-docker}" = docker ] && docker version >/dev/null 2>&1; then
  if image=$(scripts/image.sh); then
    export ZOOKEEPER_IMAGE=$image
  fi
fi
exec "$@"
