#!/usr/bin/env bash
# Checks what the Dockerfile puts into the image, without a container engine: builds the binary as it does, and looks that it is static, is
# small enough for an image of 20 MiB, and runs. Another architecture's binary is run by qemu-user-static, where that is installed.
#
# usage: check-image.sh [amd64|arm64...]    the machine's own architecture without an argument
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# gcr.io/distroless/static has some 2 MiB: certificates, time zones, and the user that the operator runs as.
limit=$((18 << 20))

own=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
[ $# -gt 0 ] || set -- "$own"

fail() {
  echo "check-image.sh: $*" >&2
  exit 1
}

for architecture in "$@"; do
  binary=$(hack/release/static.sh "$architecture" image | tail -n 1)

  # A program that asks for a loader or a library would not start on an empty system.
  if readelf --wide --program-headers "$binary" | grep -q INTERP; then
    fail "$binary asks for a dynamic loader"
  fi
  if needed=$(readelf --wide --dynamic "$binary" | grep NEEDED); then
    fail "$binary asks for libraries: $needed"
  fi

  size=$(wc -c <"$binary")
  if [ "$size" -gt "$limit" ]; then
    fail "$binary has $size bytes, more than the $limit that leave room for the system in 20 MiB"
  fi

  run=()
  if [ "$architecture" != "$own" ]; then
    run=("qemu-$(uname -m | sed 's/x86_64/aarch64/; t; s/.*/x86_64/')-static")
    if ! command -v "${run[0]}" >/dev/null; then
      echo "$architecture: static, $((size >> 10)) KiB; not run, as there is no ${run[0]}"
      continue
    fi
  fi
  version=$("${run[@]}" "$binary" --version)
  [ "$version" = "llmscaler $(sed -n '/^\[workspace\.package\]/,/^$/s/^version *= *"\(.*\)"$/\1/p' Cargo.toml)" ] || fail "$binary says it is $version"
  "${run[@]}" "$binary" operator --help | grep -q -- --leader-elect || fail "the operator's help does not name --leader-elect"
  "${run[@]}" "$binary" crd | grep -q 'kind: CustomResourceDefinition' || fail "$binary does not print the resource's definition"
  echo "$architecture: static, $((size >> 10)) KiB, runs: $version"
done
