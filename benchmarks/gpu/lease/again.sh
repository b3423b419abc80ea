# again.sh NAME: forget what was measured here, so that the same manifest begins anew (after a failure that says nothing about an arm).
. benchmarks/gpu/lease/common.sh
VERDRAFT_HOME=$V/home-$1 "$V/env/bin/verdraft" down || true
mv "$V/home-$1" "$V/forgotten-$1-$(date +%s)"; mv "$V/out/$1" "$V/out/forgotten-$1-$(date +%s)"; echo forgotten
