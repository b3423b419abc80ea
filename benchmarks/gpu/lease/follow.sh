# follow.sh NAME SECONDS: wait until it has ended, at most so long; then bring back what there is.
. benchmarks/gpu/lease/common.sh
until [ -e "$V/out/$1/exit" ] || [ $SECONDS -ge "$2" ]; do sleep 1; done
cat "$V/logs/$1-shell.log"; tail -40 "$V/logs/$1.log" | cut -c1-220
if [ ! -e "$V/out/$1/exit" ]; then mark still running; grep -h '"event"' "$V/home-$1/logs/worker.log" | tail -5 | cut -c1-300; fi
nvidia-smi --query-gpu=utilization.gpu,memory.used,clocks.sm,power.draw --format=csv,noheader || true
bash benchmarks/gpu/lease/collect.sh "$1"; mark done
