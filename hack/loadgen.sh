#!/usr/bin/env bash
# Keeps an OpenAI-compatible server busy for a while: a burst would be over before Prometheus has looked twice.
#
# Needs hey and curl. Everything is set by the environment:
#   ADDR         host and port of the server (localhost:8000)
#   MODEL        the model to ask (opt-125m)
#   CONCURRENCY  requests at once (300)
#   DURATION     for how long, such as 90s or 5m (90s)
#   MAX_TOKENS   tokens of each answer at most (512)
#   PROMPT       what is asked
#   TIMEOUT      seconds for one request; 0 is without end (0)
#
# `kubectl port-forward service/…` leads to one pod, whichever: to load a fleet, run this in the cluster or at its gateway.
set -euo pipefail

ADDR=${ADDR:-localhost:8000}
MODEL=${MODEL:-opt-125m}
CONCURRENCY=${CONCURRENCY:-300}
DURATION=${DURATION:-90s}
MAX_TOKENS=${MAX_TOKENS:-512}
PROMPT=${PROMPT:-Tell the story of a lighthouse keeper who counts ships.}
TIMEOUT=${TIMEOUT:-0}

if [ $# -gt 0 ]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
if ! command -v hey >/dev/null; then
  echo "loadgen.sh: no hey on the PATH; \`brew install hey\` or \`go install github.com/rakyll/hey@latest\` brings it" >&2
  exit 1
fi
if [ "$MAX_TOKENS" -gt 1024 ]; then
  echo "loadgen.sh: MAX_TOKENS=$MAX_TOKENS is more than the chart vllm-mock allows unless model.maxLen is raised from 1024" >&2
fi

# Text as a JSON string.
quoted() {
  local text=$1
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  printf '"%s"' "${text//$'\t'/\\t}"
}
body=$(printf '{"model": %s, "prompt": %s, "max_tokens": %d}' "$(quoted "$MODEL")" "$(quoted "$PROMPT")" "$MAX_TOKENS")
url=http://$ADDR/v1/completions

# hey counts refusals like answers, so one request goes ahead.
if ! answer=$(curl -sS --fail-with-body --max-time 60 -H "Content-Type: application/json" -d "$body" "$url"); then
  echo "loadgen.sh: $url refuses $MAX_TOKENS tokens of $MODEL: ${answer:-no answer}; check ADDR, MODEL and MAX_TOKENS" >&2
  exit 1
fi
exec hey -z "$DURATION" -c "$CONCURRENCY" -t "$TIMEOUT" -m POST -T application/json -d "$body" "$url"
