#!/usr/bin/env bash
# Packs what a release attaches into a folder: for each architecture an archive with llmscaler, its completions, its manual pages and the
# licence; beside them the resource's JSON schema and definition, and the installer.
#
# Takes the binaries that static.sh has built. The same commit gives the same archives.
#
# usage: pack.sh VERSION FOLDER
set -euo pipefail

if [ $# != 2 ]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
version=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo run --locked -p xtask -- dist "$work/pages" >/dev/null

pack() {
  local binary="${CARGO_TARGET_DIR:-target}/$2/release/llmscaler" name="llmscaler_${version}_linux_$1"
  if [ ! -x "$binary" ]; then
    echo "pack.sh: $binary is missing; \`hack/release/static.sh $1 build\` builds it" >&2
    exit 1
  fi
  mkdir "$work/$name"
  cp -R "$binary" LICENSE "$work/pages/completions" "$work/pages/man" "$work/$name"
  tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" \
    --directory "$work" "$name" | gzip --no-name --best >"$out/$name.tar.gz"
}
pack amd64 x86_64-unknown-linux-musl
pack arm64 aarch64-unknown-linux-musl

cp "$work/pages/llmscaler.schema.json" dist/install.yaml "$out"
cp config/crd/bases/autoscaling.modelsphere.dev_llmscalers.yaml "$out/llmscalers.crd.yaml"
ls -l "$out"
