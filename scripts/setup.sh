#!/usr/bin/env bash
# Makes .venv from requirements.lock and the CPU engine runtime. Run it as often as you like: what is
# there and right is left alone, two at once wait for each other, and nothing outside this directory changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export UV_PYTHON_DOWNLOADS=never
unset VIRTUAL_ENV PYTHONHOME PYTHONPATH

die() { printf 'setup: %s\n' "$@" >&2; exit 1; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.11 python3.12 python3.13; do
        if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    die "no Python 3.11, 3.12 or 3.13 was found." "Install one, or name it: PYTHON=/path/to/python3 make setup"
}

# uv from PATH, or the pinned one installed by pip into .uv.
find_uv() {
    if uv --version >/dev/null 2>&1; then
        echo uv
        return
    fi
    if ! .uv/bin/uv --version >/dev/null 2>&1; then
        echo "installing uv into .uv" >&2
        "$python" -m pip --version >/dev/null 2>&1 || die "$python has no pip, and uv is not on PATH." \
            "Install either (for example: apt-get install python3-pip)."
        "$python" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --upgrade --target .uv \
            --requirement scripts/bootstrap.lock >&2 || die "uv could not be installed; is a package index reachable?"
    fi
    echo .uv/bin/uv
}

make_environment() {
    local uv
    uv="$(find_uv)"
    if [ "$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" != "$version" ]; then
        "$uv" venv --quiet --clear --python "$python" .venv
    fi
    echo "installing the locked requirements into .venv" >&2
    "$uv" pip sync --quiet --compile-bytecode --python .venv/bin/python --require-hashes requirements.lock ||
        die "the locked requirements could not be installed (see above): is a package index reachable, is the disk full?"
    "$uv" pip install --quiet --python .venv/bin/python --no-build-isolation --no-deps --editable .
    printf '%s\n' "$wanted" >.venv/verdraft-stamp
}

exec 9>.setup.lock
if ! flock --nonblock 9; then
    echo "another setup is under way here; waiting for it" >&2
    flock 9
fi
python="$(find_python)"
version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
wanted="$version $(cat requirements.lock pyproject.toml scripts/setup.sh | sha256sum | cut -d' ' -f1)"
if [ "$(cat .venv/verdraft-stamp 2>/dev/null)" != "$wanted" ] || ! .venv/bin/python -c '' 2>/dev/null; then
    make_environment
fi
exec .venv/bin/verdraft runtime install cpu
