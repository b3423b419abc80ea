#!/usr/bin/env bash
# Makes pandas in .runtimes/rivals/pandas from benchmarks/evidence/pandas.lock, for `make bench-evidence` alone. What is there
# and right is left alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export UV_PYTHON_DOWNLOADS=never
unset VIRTUAL_ENV PYTHONHOME PYTHONPATH
lock=benchmarks/evidence/pandas.lock
place=.runtimes/rivals/pandas
uv="$(command -v uv || echo .uv/bin/uv)"
if ! "$uv" --version >/dev/null 2>&1; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --upgrade --target .uv \
        --requirement scripts/bootstrap.lock >&2
    uv=.uv/bin/uv
fi
wanted="$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])') $(sha256sum <"$lock" | cut -d' ' -f1)"
if [ "$(cat "$place/verdraft-stamp" 2>/dev/null)" != "$wanted" ] || ! "$place/bin/python" -c '' 2>/dev/null; then
    echo "installing pandas into $place" >&2
    mkdir -p "$(dirname "$place")"
    "$uv" venv --quiet --clear --python .venv/bin/python "$place"
    "$uv" pip sync --quiet --python "$place/bin/python" --require-hashes "$lock"
    printf '%s\n' "$wanted" >"$place/verdraft-stamp"
fi
