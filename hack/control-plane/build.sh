#!/usr/bin/env bash
# Builds the servers of the end-to-end tests from the Go modules pinned beside this script.
#
# One at a time and at low priority, because a link of the API server alone takes over 2 GB and the whole
# build takes minutes; what is already built from the same pins and flags is skipped.
#
# usage: build.sh [--force] [BINARY...]
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out="$(cd "$here/../.." && pwd)/.cache/control-plane/bin"

# name | module folder | package | module that gives the version
binaries='
etcd                    | etcd       | go.etcd.io/etcd/server/v3                     | go.etcd.io/etcd/server/v3
kube-apiserver          | kubernetes | k8s.io/kubernetes/cmd/kube-apiserver          | k8s.io/kubernetes
kube-controller-manager | kubernetes | k8s.io/kubernetes/cmd/kube-controller-manager | k8s.io/kubernetes
prometheus              | prometheus | github.com/prometheus/prometheus/cmd/prometheus | github.com/prometheus/prometheus
promtool                | prometheus | github.com/prometheus/prometheus/cmd/promtool  | github.com/prometheus/prometheus
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
  echo "build.sh: the control plane is built from source and needs Go 1.26.7 or newer on the PATH" >&2
  exit 1
fi

# The version that FOLDER/go.mod pins for MODULE, without the minutes that `go list -m` may take to download.
pinned_version() {
  awk -v module="$2" '$1 == "require" { sub(/^require /, "") } $1 == module { print $2; exit }' "$here/$1/go.mod"
}

# Linker flags that stamp VERSION into a binary of FOLDER: clients parse what the API server says it is.
stamp_flags() {
  local minor
  case "$1" in
    kubernetes)
      minor=${2#v1.}
      minor=${minor%%.*}
      local package=k8s.io/component-base/version
      echo "-X $package.gitVersion=$2 -X $package.gitMajor=1 -X $package.gitMinor=$minor -X $package.gitTreeState=clean"
      ;;
    prometheus)
      # Release 3.16.0 is published as module version v0.316.0.
      echo "-X github.com/prometheus/common/version.Version=$(sed -E 's/^v0\.([0-9]+)([0-9]{2})\./\1.\2./' <<<"$2")"
      ;;
  esac
}

# Only static, file and HTTP discovery stay in Prometheus: the clouds' clients are most of its build.
tags() {
  if [ "$1" = prometheus ]; then echo netgo,remove_all_sd; fi
}

# What is told here would stand among what a recipe prints that needs the binaries, such as a rendered chart.
exec >&2

mkdir -p "$out"
# A second build at the same time would only double the wait.
if command -v flock >/dev/null; then
  exec 9>"$out/.lock"
  flock 9
fi

while IFS='| ' read -r name folder package module; do
  if [ -z "$name" ]; then continue; fi
  if [ ${#wanted[@]} -gt 0 ] && [[ " ${wanted[*]} " != *" $name "* ]]; then continue; fi

  version=$(pinned_version "$folder" "$module")
  ldflags="-s -w $(stamp_flags "$folder" "$version")"
  tags=$(tags "$folder")
  pins=$(cat "$here/$folder/go.mod" "$here/$folder/go.sum" | cksum | tr ' ' '-')
  stamp="$version $pins $tags $ldflags"

  if [ -z "$force" ] && [ -x "$out/$name" ] && [ "$(cat "$out/$name.stamp" 2>/dev/null)" = "$stamp" ]; then
    echo "$name $version: up to date"
    continue
  fi

  printf '%s %s: building ... ' "$name" "$version"
  started=$SECONDS
  temporary="$out/.$name.$$"
  trap 'rm -f "$temporary"' EXIT
  if ! (cd "$here/$folder" && CGO_ENABLED=0 nice -n 10 go build -trimpath -tags "$tags" -ldflags "$ldflags" -o "$temporary" "$package") 9>&-; then
    echo "failed"
    exit 1
  fi
  rm -f "$out/$name.stamp"
  mv -f "$temporary" "$out/$name"
  echo "$stamp" >"$out/$name.stamp"
  echo "$(($(wc -c <"$out/$name") / 1000000)) MB in $((SECONDS - started)) s"
done <<<"$binaries"
