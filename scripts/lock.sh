#!/usr/bin/env bash
# Writes requirements.lock from pyproject.toml; `lock.sh --check` says whether it is up to date instead.
# `lock.sh runtimes` writes the engine runtimes' locks from worker/runtimes/*.in, keeping what still fits.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export UV_PYTHON_DOWNLOADS=never
uv="$(command -v uv || echo .uv/bin/uv)"
hashed=(pip compile --quiet --python-version 3.11 --generate-hashes --no-header)
if [ "${1:-}" = runtimes ]; then
    # The CPU inputs state their whole closure, because the wheels' own metadata asks for more than the CPU build needs.
    for input in worker/runtimes/cpu*.in; do
        "$uv" "${hashed[@]}" --no-annotate --universal --no-deps --output-file "${input%.in}.lock" "$input"
    done
    "$uv" "${hashed[@]}" --no-annotate --python-platform x86_64-manylinux_2_31 --only-binary :all: \
        --output-file worker/runtimes/cuda.lock worker/runtimes/cuda.in
    exit
fi
target=requirements.lock
if [ "${1:-}" = --check ]; then
    target="$(mktemp)"
    trap 'rm -f "$target"' EXIT
    cp requirements.lock "$target"
fi
"$uv" "${hashed[@]}" pyproject.toml --group dev --universal --output-file "$target"
cmp --silent "$target" requirements.lock || { echo "requirements.lock does not fit pyproject.toml: run make lock" >&2; exit 1; }
