#!/usr/bin/env bash
# Builds what the tests take and Rust does not give, from the Go modules pinned in the folders beside this script.
#
# control-plane: etcd, kube-apiserver, kube-controller-manager, Prometheus and promtool. helm: Helm 3, Helm 4 and kubectl. They land in
# .cache/control-plane/bin and .cache/helm/bin. One is built at a time and at low priority, as a link of the API server alone takes over
# 2 GB, and the whole build minutes; what is already built from the same pins and flags is skipped.
#
# usage: build.sh [--force] [control-plane | helm | BINARY]...
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache="$(cd "$here/.." && pwd)/.cache"

# group | binary | module, a folder of the group | package | module that gives the version
binaries='
control-plane | etcd                    | etcd       | go.etcd.io/etcd/server/v3                       | go.etcd.io/etcd/server/v3
control-plane | kube-apiserver          | kubernetes | k8s.io/kubernetes/cmd/kube-apiserver            | k8s.io/kubernetes
control-plane | kube-controller-manager | kubernetes | k8s.io/kubernetes/cmd/kube-controller-manager   | k8s.io/kubernetes
control-plane | prometheus              | prometheus | github.com/prometheus/prometheus/cmd/prometheus | github.com/prometheus/prometheus
control-plane | promtool                | prometheus | github.com/prometheus/prometheus/cmd/promtool   | github.com/prometheus/prometheus
helm          | helm-v3                 | helm-v3    | helm.sh/helm/v3/cmd/helm                        | helm.sh/helm/v3
helm          | helm-v4                 | helm-v4    | helm.sh/helm/v4/cmd/helm                        | helm.sh/helm/v4
helm          | kubectl                 | kubectl    | .                                               | k8s.io/kubectl
'

force=
wanted=()
for argument in "$@"; do
  case "$argument" in
    --force) force=yes ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *)
      if ! awk -v name="$argument" 'NF && ($1 == name || $3 == name) { found = 1 } END { exit !found }' <<<"$binaries"; then
        echo "build.sh: nothing is named '$argument'; there are:$(awk 'NF { if (!seen[$1]++) printf " %s", $1; printf " %s", $3 }' <<<"$binaries")" >&2
        exit 2
      fi
      wanted+=("$argument")
      ;;
  esac
done

if ! command -v go >/dev/null; then
  echo "build.sh: the tests' control plane, Helm and kubectl are built from source and need Go 1.26.7 or newer on the PATH" >&2
  exit 1
fi

# The version that FOLDER/go.mod pins for MODULE, without the minutes that `go list -m` may take to download.
pinned_version() {
  awk -v module="$2" '$1 == "require" { sub(/^require /, "") } $1 == module { print $2; exit }' "$1/go.mod"
}

# Linker flags that stamp VERSION into a binary of a module: clients parse what the API server says it is.
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
    helm-*) echo "-X helm.sh/helm/${1#helm-}/internal/version.version=$2" ;;
    kubectl) echo "-X k8s.io/component-base/version.gitVersion=$2" ;;
  esac
}

# Only static, file and HTTP discovery stay in Prometheus: the clouds' clients are most of its build.
tags() {
  if [ "$1" = prometheus ]; then echo netgo,remove_all_sd; fi
}

# What is told here would stand among what a recipe prints that needs the binaries, such as a rendered chart.
exec >&2

mkdir -p "$cache"
# A second build at the same time would only double the wait.
if command -v flock >/dev/null; then
  exec 9>"$cache/.build.lock"
  flock 9
fi

while IFS='| ' read -r group name module package versioned; do
  if [ -z "$name" ]; then continue; fi
  if [ ${#wanted[@]} -gt 0 ] && [[ " ${wanted[*]} " != *" $group "* && " ${wanted[*]} " != *" $name "* ]]; then continue; fi

  modules="$here/$group/$module"
  binary="$cache/$group/bin/$name"
  version=$(pinned_version "$modules" "$versioned")
  # kubectl v1.36.3 is published as module version v0.36.3.
  if [ "$module" = kubectl ]; then version=${version/v0./v1.}; fi
  ldflags="-s -w $(stamp_flags "$module" "$version")"
  tags=$(tags "$module")
  pins=$(cat "$modules"/go.mod "$modules"/go.sum "$modules"/*.go | cksum | tr ' ' '-')
  stamp="$version $pins $tags $ldflags"

  if [ -z "$force" ] && [ -x "$binary" ] && [ "$(cat "$binary.stamp" 2>/dev/null)" = "$stamp" ]; then
    echo "$name $version: up to date"
    continue
  fi

  printf '%s %s: building ... ' "$name" "$version"
  started=$SECONDS
  mkdir -p "${binary%/*}"
  temporary="${binary%/*}/.$name.$$"
  trap 'rm -f "$temporary"' EXIT
  if ! (cd "$modules" && CGO_ENABLED=0 nice -n 10 go build -trimpath -tags "$tags" -ldflags "$ldflags" -o "$temporary" "$package") 9>&-; then
    echo "failed"
    exit 1
  fi
  rm -f "$binary.stamp"
  mv -f "$temporary" "$binary"
  echo "$stamp" >"$binary.stamp"
  echo "$(($(wc -c <"$binary") / 1000000)) MB in $((SECONDS - started)) s"
done <<<"$binaries"
