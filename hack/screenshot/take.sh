#!/usr/bin/env bash
# Takes docs/pictures/dashboard.png: the demo's ramp, 21 minutes after its beginning, while the fleet grows. It takes a minute.
# Needs chromium, chromedriver, curl, and the binary that `cargo build -p llmscaler` makes or that LLMSCALER_BIN names.
set -euo pipefail
cd "$(dirname "$0")/../.."

OUT=${1:-docs/pictures/dashboard.png}
PAGE=${2:-"#/demo/headroom"}
BIN=${LLMSCALER_BIN:-target/debug/llmscaler}
SPEED=20
MINUTES=21
work=$(mktemp -d)
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -r "$work"' EXIT
pids=()

# The first words after a mark, once they are there.
said() { # FILE MARK
    for _ in $(seq 100); do
        if grep -q "$2" "$1"; then
            sed -n "s|.*$2\([^ /.]*\).*|\1|p" "$1" | head -n 1
            return
        fi
        sleep 0.1
    done
    echo "$1 has no \"$2\" after 10 s" >&2
    cat "$1" >&2
    return 1
}

"$BIN" demo --scenario ramp --speed "$SPEED" >"$work/demo" &
pids+=($!)
chromedriver --port=0 >"$work/driver" 2>&1 &
pids+=($!)
dashboard=$(grep -o 'http://127.0.0.1:[0-9]*' <(said "$work/demo" "dashboard  " >/dev/null && cat "$work/demo") | head -n 1)
driver=http://127.0.0.1:$(said "$work/driver" "successfully on port ")

post() { curl -sSf -H "Content-Type: application/json" -d "$2" "$driver/$1"; }
session=$(post session '{"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": {"args":
    ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars", "--window-size=1060,1360"]}}}}' |
    sed 's/.*"sessionId":"\([^"]*\)".*/\1/')
post "session/$session/url" "{\"url\": \"$dashboard/$PAGE\"}" >/dev/null
sleep $((MINUTES * 60 / SPEED))
curl -sSf "$driver/session/$session/screenshot" | sed 's/.*"value":"\([^"]*\)".*/\1/' | base64 -d >"$work/picture.png"
curl -sSf -X DELETE "$driver/session/$session" >/dev/null
mv "$work/picture.png" "$OUT"
echo "$OUT"
