#!/usr/bin/env bash
# Says whether a version is the latest: no pre-release, and the highest of all that have a tag. A patch of an older line is not.
#
# Takes the tags, one a line, with or without refs/tags/ before it, and passes over those that are no release's. Prints latest=true or
# latest=false. A list without the version's own tag is refused, since it cannot be all of them.
#
# usage: latest.sh VERSION <TAGS
set -euo pipefail

if [ $# != 1 ]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi

tags=$(sed 's#^refs/tags/##')
if ! grep -qxF "v$1" <<<"$tags"; then
  echo "latest.sh: the tags that were given lack v$1; give all of the repository's" >&2
  exit 1
fi
highest=$(sed -n 's/^v\([0-9]\{1,\}\.[0-9]\{1,\}\.[0-9]\{1,\}\)$/\1/p' <<<"$tags" | sort -V | tail -n 1)
if [ "$1" = "$highest" ]; then
  echo "latest=true"
else
  echo "latest=false"
fi
