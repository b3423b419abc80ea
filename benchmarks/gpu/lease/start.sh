# start.sh NAME LIMIT_S [BLOCKS]
. benchmarks/gpu/lease/common.sh
rm -f "$V/out/$1/exit"
setsid nohup bash benchmarks/gpu/lease/experiment.sh "$@" > "$V/logs/$1-shell.log" 2>&1 < /dev/null &
echo started "$@"
