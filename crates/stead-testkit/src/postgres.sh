#!/bin/sh
# A private PostgreSQL for one test process: made, announced, and taken away when the process is gone.
# Standard input is a pipe the tests hold open; its end, however the tests ended, is the order to stop.
set -eu
bin=$1
trap '' INT TERM
dir=$(mktemp -d /tmp/stead-store-pg.XXXXXX)
"$bin/initdb" -D "$dir/data" -A trust -U stead -E UTF8 --no-locale --no-sync >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 1; }
"$bin/postgres" -D "$dir/data" -k "$dir" -c listen_addresses= -c fsync=off -c max_connections=300 >>"$dir/log" 2>&1 </dev/null &
pid=$!
tries=0
until "$bin/pg_isready" -q -h "$dir" -U stead -d postgres; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || { cat "$dir/log" >&2; kill -QUIT "$pid"; exit 1; }
    sleep 0.1
done
echo "$dir"
read -r _ || true
kill -QUIT "$pid" || true
wait "$pid" || true
rm -rf "$dir"
