#!/usr/bin/env bash
# Makes the field's load generators in .runtimes/rivals, a virtual environment each, from benchmarks/replay/clients/*.lock
# (vllm bench serve is in the CPU runtime already). What is there and right is left alone; one for which this host has no
# Python is left out, and said so. Nothing outside this directory changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export UV_PYTHON_DOWNLOADS=never
unset VIRTUAL_ENV PYTHONHOME PYTHONPATH
rivals=.runtimes/rivals
runtime=.runtimes/cpu

die() { printf 'rivals: %s\n' "$@" >&2; exit 1; }

find_uv() {
    if uv --version >/dev/null 2>&1; then
        echo uv
        return
    fi
    if ! .uv/bin/uv --version >/dev/null 2>&1; then
        echo "installing uv into .uv" >&2
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --upgrade \
            --target .uv --requirement scripts/bootstrap.lock >&2 || die "uv could not be installed; is a package index reachable?"
    fi
    echo .uv/bin/uv
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# The runtime's own Python for all but inference-perf, which wants 3.12 or 3.13: PATH's, or one that pyenv keeps.
python_for() {
    local candidate
    if [ "$1" != inference-perf ]; then
        echo "$runtime/bin/python"
        return
    fi
    for candidate in "$runtime/bin/python" python3.12 python3.13 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[23].*/bin/python; do
        case "$(version_of "$candidate")" in 3.12 | 3.13) echo "$candidate" && return ;; esac
    done
}

# guidellm iterates its rows with torch's DataLoader and uses nothing else of it. The runtime's torch is linked in, without
# its metadata, so that no installer takes it for a part of this environment and removes the runtime's files.
borrow_torch() {
    local from to
    from="$(realpath "$runtime"/lib/python3.*/site-packages)"
    to="$(echo "$1"/lib/python3.*/site-packages)"
    ln -s "$from/torch" "$from/torchgen" "$to/"
}

make_rival() {
    local name="$1" lock="benchmarks/replay/clients/$1.lock" place="$rivals/$1" python wanted
    python="$(python_for "$name")"
    if [ -z "$python" ]; then
        echo "$name is left out: it needs Python 3.12 or 3.13, and none was found" >&2
        return
    fi
    wanted="$(version_of "$python") $(cat "$lock" scripts/rivals.sh | sha256sum | cut -d' ' -f1)"
    if [ "$(cat "$place/verdraft-stamp" 2>/dev/null)" = "$wanted" ] && "$place/bin/python" -c '' 2>/dev/null; then
        return
    fi
    echo "installing $(head -n 1 "benchmarks/replay/clients/$name.in") into $place" >&2
    uv="${uv:-$(find_uv)}"
    "$uv" venv --quiet --clear --python "$python" "$place"
    "$uv" pip sync --quiet --compile-bytecode --python "$place/bin/python" --require-hashes "$lock" ||
        die "$name could not be installed (see above): is a package index reachable, is the disk full?"
    [ "$name" != guidellm ] || borrow_torch "$place"
    printf '%s\n' "$wanted" >"$place/verdraft-stamp"
}

[ -x "$runtime/bin/vllm" ] || die "the CPU runtime is not there: run make setup first."
mkdir -p "$rivals/home"
exec 9>"$rivals/.lock"
flock 9
for input in benchmarks/replay/clients/*.in; do
    make_rival "$(basename "$input" .in)"
done
