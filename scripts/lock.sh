#!/usr/bin/env bash
# Writes requirements.lock from pyproject.toml; `lock.sh --check` says whether it is up to date instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export UV_PYTHON_DOWNLOADS=never
uv="$(command -v uv || echo .uv/bin/uv)"
target=requirements.lock
if [ "${1:-}" = --check ]; then
    target="$(mktemp)"
    trap 'rm -f "$target"' EXIT
    cp requirements.lock "$target"
fi
"$uv" pip compile --quiet pyproject.toml --group dev --python-version 3.11 --universal --generate-hashes --no-header \
    --output-file "$target"
cmp --silent "$target" requirements.lock || { echo "requirements.lock does not fit pyproject.toml: run make lock" >&2; exit 1; }
