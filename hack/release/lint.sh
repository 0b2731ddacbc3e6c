#!/usr/bin/env bash
# Lints the workflows with actionlint, which is built from the module pinned beside this script into .cache/release/bin, and the scripts,
# those in the workflows and those of the repository, with shellcheck.
#
# usage: lint.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
out="$root/.cache/release/bin"

for tool in go shellcheck; do
  if ! command -v "$tool" >/dev/null; then
    echo "lint.sh: needs $tool on the PATH" >&2
    exit 1
  fi
done

# go looks by itself whether anything has changed.
mkdir -p "$out"
(cd "$here/actionlint" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$out/actionlint" github.com/rhysd/actionlint/cmd/actionlint)

cd "$root"
"$out/actionlint"
shellcheck .ci/run hack/*.sh hack/*/*.sh
