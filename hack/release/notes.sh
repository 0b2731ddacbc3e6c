#!/usr/bin/env bash
# Prints what CHANGELOG.md says of a version: the text below its heading, up to the next version or the links at the end.
#
# usage: notes.sh VERSION [CHANGELOG]
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
changelog=${2:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/CHANGELOG.md}

notes=$(awk -v heading="## [$1]" '
  index($0, "## [") == 1 || /^\[[^]]*\]: / { inside = 0 }
  inside { print }
  index($0, heading " ") == 1 { inside = 1 }
' "$changelog")
if [ -z "${notes//[[:space:]]/}" ]; then
  echo "notes.sh: $changelog says nothing of $1; write its section first" >&2
  exit 1
fi
printf '%s\n' "$notes" | sed '1{/^$/d}'
