#!/usr/bin/env bash
# Installs (as root, with apt) or names what `make test` or `make bench` needs
# beyond Go. Usage: scripts/deps.sh test|bench
set -euo pipefail

declare -A package=(
  [gcc]=gcc [python3]=python3 [node]=nodejs [nginx]=nginx-light [strace]=strace
  [sqlite3]=sqlite3 [unshare]=util-linux [mount]=mount [ip]=iproute2 [curl]=curl
  [wrk]=wrk [haproxy]=haproxy [postgres]=postgresql
)
case "${1:-}" in
  test)  need=(gcc python3 node nginx strace sqlite3 unshare mount ip curl postgres) ;;
  bench) need=(gcc wrk haproxy sqlite3) ;;
  *) echo "usage: scripts/deps.sh test|bench" >&2; exit 2 ;;
esac

export PATH="$PATH:/usr/sbin:/sbin"
for bin in /usr/lib/postgresql/*/bin; do PATH="$PATH:$bin"; done
missing=() packages=()
for command in "${need[@]}"; do
  command -v "$command" >/dev/null 2>&1 && continue
  missing+=("$command")
  packages+=("${package[$command]}")
done
[ "${#missing[@]}" -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "missing: ${missing[*]}" >&2
  echo "install them first, on Debian: sudo apt-get install -y ${packages[*]}" >&2
  exit 1
fi
echo "installing: ${packages[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A package that starts a server of its own must not: policy-rc.d says no for this call.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
  trap 'rm -f "$log" "$policy"' EXIT
fi
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "cannot install: ${packages[*]}" >&2
  exit 1
fi
