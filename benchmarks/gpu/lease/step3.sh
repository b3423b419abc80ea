. benchmarks/gpu/lease/common.sh
mark engine, second part
unpack .gpu/carry-3/py.tar.xz "$V/engine"; unpack .gpu/carry-3/draft.tar.xz "$V/models"
# compiled once here, so that the first server's start is not charged for it
setsid nohup "$BASE" -m compileall -q -j 0 "$V/engine" > "$V/logs/compileall.log" 2>&1 &
cat "$V/logs/widening.log"; ls "$V/models"; mark done
