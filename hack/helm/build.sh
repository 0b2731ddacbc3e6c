#!/usr/bin/env bash
# Builds the clients that install the operator, from the Go modules pinned beside this script: Helm 3, Helm 4 and kubectl.
#
# They land in .cache/helm/bin. One is built at a time and at low priority; what is already built from the same pins is skipped.
#
# usage: build.sh [--force] [BINARY...]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out="$(cd "$here/../.." && pwd)/.cache/helm/bin"

# name, which is that of its folder | package | module that gives the version | variable that is told the version
binaries='
helm-v3 | helm.sh/helm/v3/cmd/helm | helm.sh/helm/v3 | helm.sh/helm/v3/internal/version.version
helm-v4 | helm.sh/helm/v4/cmd/helm | helm.sh/helm/v4 | helm.sh/helm/v4/internal/version.version
kubectl | .                        | k8s.io/kubectl  | k8s.io/component-base/version.gitVersion
'

force=
wanted=()
for argument in "$@"; do
  case "$argument" in
    --force) force=yes ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *)
      if ! grep -q "^$argument " <<<"$binaries"; then
        echo "build.sh: no binary named '$argument'; there are:$(awk 'NF { printf " %s", $1 }' <<<"$binaries")" >&2
        exit 2
      fi
      wanted+=("$argument")
      ;;
  esac
done

if ! command -v go >/dev/null; then
  echo "build.sh: Helm and kubectl are built from source and need Go 1.26 or newer on the PATH" >&2
  exit 1
fi

# The version that FOLDER/go.mod pins for MODULE.
pinned_version() {
  awk -v module="$2" '$1 == "require" { sub(/^require /, "") } $1 == module { print $2; exit }' "$here/$1/go.mod"
}

# What is told here would stand among what a recipe prints that needs the binaries, such as a rendered chart.
exec >&2

mkdir -p "$out"
# A second build at the same time would only double the wait.
if command -v flock >/dev/null; then
  exec 9>"$out/.lock"
  flock 9
fi

while IFS='| ' read -r name package module variable; do
  if [ -z "$name" ]; then continue; fi
  if [ ${#wanted[@]} -gt 0 ] && [[ " ${wanted[*]} " != *" $name "* ]]; then continue; fi

  version=$(pinned_version "$name" "$module")
  # kubectl v1.36.3 is published as module version v0.36.3.
  if [ "$name" = kubectl ]; then version=${version/v0./v1.}; fi
  ldflags="-s -w -X $variable=$version"
  pins=$(cat "$here/$name"/go.mod "$here/$name"/go.sum "$here/$name"/*.go | cksum | tr ' ' '-')
  stamp="$version $pins $ldflags"

  if [ -z "$force" ] && [ -x "$out/$name" ] && [ "$(cat "$out/$name.stamp" 2>/dev/null)" = "$stamp" ]; then
    echo "$name $version: up to date"
    continue
  fi

  printf '%s %s: building ... ' "$name" "$version"
  started=$SECONDS
  temporary="$out/.$name.$$"
  trap 'rm -f "$temporary"' EXIT
  if ! (cd "$here/$name" && CGO_ENABLED=0 nice -n 10 go build -trimpath -ldflags "$ldflags" -o "$temporary" "$package") 9>&-; then
    echo "failed"
    exit 1
  fi
  rm -f "$out/$name.stamp"
  mv -f "$temporary" "$out/$name"
  echo "$stamp" >"$out/$name.stamp"
  echo "$(($(wc -c <"$out/$name") / 1000000)) MB in $((SECONDS - started)) s"
done <<<"$binaries"
