#!/usr/bin/env bash
# Writes requirements.lock from pyproject.toml, and the locks of the field's load generators beside their inputs, keeping
# what still fits; `lock.sh --check` says whether requirements.lock is up to date instead.
# `lock.sh runtimes` writes the engine runtimes' locks from worker/runtimes/*.in, keeping what still fits.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export UV_PYTHON_DOWNLOADS=never
uv="$(command -v uv || echo .uv/bin/uv)"
hashed=(pip compile --quiet --generate-hashes --no-header --no-emit-index-url --no-emit-find-links)

lock_client() {
    local input="benchmarks/replay/clients/$1.in" python=3.11
    [ "$1" != inference-perf ] || python=3.12 # the oldest that it supports
    # torch is borrowed from the CPU runtime (rivals.sh): the one in the main index brings CUDA along.
    "$uv" "${hashed[@]}" --python-version "$python" --no-annotate --universal --excludes <(echo torch) \
        --output-file "${input%.in}.lock" "$input"
}

hashed_for_all=("${hashed[@]}" --python-version 3.11)
if [ "${1:-}" = runtimes ]; then
    # The CPU inputs state their whole closure, because the wheels' own metadata asks for more than the CPU build needs.
    for input in worker/runtimes/cpu*.in; do
        "$uv" "${hashed_for_all[@]}" --no-annotate --universal --no-deps --output-file "${input%.in}.lock" "$input"
    done
    "$uv" "${hashed_for_all[@]}" --no-annotate --python-platform x86_64-manylinux_2_31 --only-binary :all: \
        --output-file worker/runtimes/cuda.lock worker/runtimes/cuda.in
    exit
fi
target=requirements.lock
if [ "${1:-}" = --check ]; then
    target="$(mktemp)"
    trap 'rm -f "$target"' EXIT
    cp requirements.lock "$target"
fi
"$uv" "${hashed_for_all[@]}" pyproject.toml --group dev --universal --output-file "$target"
cmp --silent "$target" requirements.lock || { echo "requirements.lock does not fit pyproject.toml: run make lock" >&2; exit 1; }
[ "${1:-}" != --check ] || exit 0
"$uv" "${hashed_for_all[@]}" --no-annotate --universal --output-file benchmarks/evidence/pandas.lock benchmarks/evidence/pandas.in
for input in benchmarks/replay/clients/*.in; do
    lock_client "$(basename "$input" .in)"
done
