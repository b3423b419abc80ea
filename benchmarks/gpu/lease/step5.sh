# Only where an earlier lease is gone on from: its state, carried as .gpu/state.
. benchmarks/gpu/lease/common.sh
mark state; mkdir -p "$V/state"; cp -r .gpu/state/. "$V/state/"; ls -l "$V"/state/*; mark done
