#!/usr/bin/env bash
# The browser tests drive the system's Chromium: found on PATH, or installed where this is allowed.
set -euo pipefail
if command -v chromium >/dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends chromium
    exit 0
fi
echo "The browser tests need chromium on PATH: install it with your package manager (Debian: apt-get install chromium)," >&2
echo "or run the rest with: make test ARGS='-m \"not browser\"'" >&2
exit 1
