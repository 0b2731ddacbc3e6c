#!/usr/bin/env bash
# Refuses a release whose parts would not agree on its version. The parts are the tag, with a leading v; in the chart, appVersion (the tag
# of the image that it installs) and version; Cargo.toml (what `llmscaler --version` says); the image in dist/install.yaml; appVersion in
# test/charts/vllm-mock, whose mock is that image; and a section of CHANGELOG.md. All have to be the same, to the letter.
#
# Prints version=…, and prerelease=true or false, the latter for a version without a hyphen.
#
# usage: check-version.sh TAG [REPOSITORY]
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
tag=$1
root=${2:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}

number='(0|[1-9][0-9]*)'
identifier='[0-9A-Za-z-]+'
# Semantic versions without build metadata: a plus sign cannot stand in the tag of an image.
if ! [[ $tag =~ ^v$number\.$number\.$number(-$identifier(\.$identifier)*)?$ ]]; then
  echo "check-version.sh: the tag '$tag' is not v and a semantic version, such as v1.2.3 or v1.2.3-rc.1" >&2
  exit 1
fi
version=${tag#v}

# A part's word for the version, from the first line that the sed expression prints.
word() { sed -n "$2" "$root/$1" | head -n 1; }

wrong=0
expect() {
  if [ "$2" != "$version" ]; then
    echo "check-version.sh: the tag says $version, and $1 says ${2:-nothing}" >&2
    wrong=1
  fi
}

expect "appVersion in dist/chart/Chart.yaml" "$(word dist/chart/Chart.yaml 's/^appVersion: *"\{0,1\}\([^" ]*\)"\{0,1\} *$/\1/p')"
expect "version in dist/chart/Chart.yaml" "$(word dist/chart/Chart.yaml 's/^version: *"\{0,1\}\([^" ]*\)"\{0,1\} *$/\1/p')"
expect "[workspace.package] in Cargo.toml" "$(word Cargo.toml '/^\[workspace\.package\]/,/^$/s/^version *= *"\(.*\)"$/\1/p')"
expect "the image in dist/install.yaml" "$(word dist/install.yaml 's/^ *image: .*:\([^:]*\)$/\1/p')"
expect "appVersion in test/charts/vllm-mock/Chart.yaml" "$(word test/charts/vllm-mock/Chart.yaml 's/^appVersion: *"\{0,1\}\([^" ]*\)"\{0,1\} *$/\1/p')"
if ! grep -qF "## [$version] - " "$root/CHANGELOG.md"; then
  echo "check-version.sh: CHANGELOG.md has no section '## [$version] - DATE'" >&2
  wrong=1
fi

if [ "$wrong" = 1 ]; then
  echo "check-version.sh: make them agree (docs/release.md), commit, and tag that commit" >&2
  exit 1
fi
echo "version=$version"
case $version in
  *-*) echo "prerelease=true" ;;
  *) echo "prerelease=false" ;;
esac
