# The service beside the machine's Python; the runtime is registered, the host's client calibrated.
. benchmarks/gpu/lease/common.sh
mark service
unpack .gpu/carry-4/service.tar.xz "$V/service"
bash benchmarks/gpu/lease/join.sh
export PATH=$V/env/bin:$PATH
verdraft --help > /dev/null && mark verdraft starts
( verdraft calibrate --quick > "$V/logs/calibrate.log" 2>&1; echo "calibrate: exit $?" >> "$V/logs/calibrate.log" ) &
time verdraft runtime add gpu "$V/engine" --python "$(command -v "$BASE")" > "$V/logs/runtime.log" 2>&1; echo "runtime add: exit $?"
cut -c1-300 "$V/logs/runtime.log"
wait; tail -25 "$V/logs/calibrate.log"
verdraft runtime inspect gpu > "$V/logs/runtime-inspect.log" 2>&1; head -12 "$V/logs/runtime-inspect.log" | cut -c1-200
for _ in $(seq 120); do grep -q 'B parameters' "$V/logs/widening.log" && break; sleep 1; done; cat "$V/logs/widening.log"
time verdraft model list > "$V/logs/models.log" 2>&1; cut -c1-160 "$V/logs/models.log"
df -h /tmp | tail -1; free -g | head -2; keep; mark done
