. benchmarks/gpu/lease/common.sh
mark engine, first part
unpack .gpu/carry-2/libs.tar.xz "$V/engine"
cat "$V/logs/widening.log"; ls "$V/models" "$V/models/small-wide" 2>/dev/null | head -8; mark done
