#!/usr/bin/env bash
# The main job, from nothing: everything up, a deploy, requests through a new
# revision, what happened. Then it stays open until Ctrl-C. DEMO_EXIT=1 ends at once.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/bin:$PATH"
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

data=$(mktemp -d "${TMPDIR:-/tmp}/fairlead-demo.XXXXXX")
export FAIRLEAD_DATA=$data
log=$data/up.log
up=
finish() {
  code=$?
  trap - EXIT INT TERM HUP
  if [ -n "$up" ] && kill -0 "$up" 2>/dev/null; then kill -INT "$up"; wait "$up" || true; fi
  [ "$code" = 0 ] || cat "$log" >&2
  rm -rf "$data"
}
trap finish EXIT
trap 'exit 0' INT TERM HUP

go build -o bin/hello ./examples/hello

say "Everything in one process"
set -m # a process group of its own: a Ctrl-C of the terminal and that of finish would be two, and end it at once
fairlead up --data "$data" --api 127.0.0.1:0 --ops 127.0.0.1:0 --poll 127.0.0.1:0 --gateway "${DEMO_GATEWAY:-127.0.0.1:0}" >"$log" 2>&1 &
up=$!
set +m
for _ in $(seq 200); do
  grep -q '^fairlead is up' "$log" && break
  kill -0 "$up" 2>/dev/null || { cat "$log" >&2; exit 1; }
  sleep 0.05
done
grep '^fairlead is up' "$log"
gateway=$(grep -oE 'gateway[= ]+(http://)?127\.0\.0\.1:[0-9]+' "$log" | grep -oE '127\.0\.0\.1:[0-9]+' | head -n1)

say "Deploy a program"
run fairlead deploy hello --instances 2 -- ./bin/hello

say "Requests all the time, while a new revision takes over"
(
  while [ ! -e "$data/enough" ]; do
    curl -s -o /dev/null -w '%{http_code}\n' --max-time 10 -H 'Host: hello.localhost' "http://$gateway/" || echo failed
  done
) >"$data/answers" &
asking=$!
run fairlead deploy hello --env GREETING=hi
run curl -s -H 'Host: hello.localhost' "http://$gateway/"
touch "$data/enough"
wait "$asking"
printf '%s requests, %s of them failed\n' "$(wc -l <"$data/answers")" "$(grep -vc '^200$' "$data/answers" || true)"

say "A release that does not hold"
run fairlead deploy hello --ready-timeout 5s -- sh -c 'echo no database; sleep 1.5; exit 3' || true
run curl -s -H 'Host: hello.localhost' "http://$gateway/"

say "What happened"
run fairlead status hello
run fairlead events hello

say "It stays up until Ctrl-C. To play with it from a second terminal:"
printf '  export PATH=%s/bin:$PATH FAIRLEAD_DATA=%s\n  curl http://hello.localhost:%s/\n' "$PWD" "$data" "${gateway##*:}"
[ -z "${DEMO_EXIT:-}" ] || exit 0
wait "$up"
