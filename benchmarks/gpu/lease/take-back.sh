#!/usr/bin/env bash
# take-back.sh NAME FILES_AT: put what a lease brought back where the next one finds it (.gpu/state/NAME), and its bundle into .gpu/bundles.
set -euo pipefail
cd "$(dirname "$0")/../../../.gpu"; rm -rf "state/$1"; mkdir -p "state/$1" bundles
tar -xJf "$2/$1-frozen.tar.xz" -C "state/$1"; rm -f "state/$1/exit"
for part in "$2/$1"-state.tar.xz.??; do cp "$part" "state/$1/${part##*/$1-}"; done; chmod -R u+w "state/$1"
if [ -e "$2/$1-bundle.tar.zst" ]; then cp "$2/$1-bundle.tar.zst" "bundles/$1-$(date +%m%d-%H%M%S).tar.zst"; fi
ls -l "state/$1" bundles
