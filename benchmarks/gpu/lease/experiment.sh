# experiment.sh NAME LIMIT_S [BLOCKS]: freeze it for this machine and run it in a session of its own, which outlives the call.
# A state of an earlier lease under $V/state/NAME/ (manifest.json, *.jsonl, state.tar.xz.??) is gone on from, and not frozen anew.
. benchmarks/gpu/lease/common.sh
export PATH=$V/env/bin:$PATH
unpack_state() { [ ! -e "$dir/state.tar.xz.00" ] || { cat "$dir"/state.tar.xz.?? > "$dir/state.tar.xz"; "$BASE" -c "import lzma,shutil,sys;shutil.copyfileobj(lzma.open(sys.argv[1]),open(sys.argv[1][:-3],'wb'),1<<20)" "$dir/state.tar.xz"; rm -f "$dir"/state.tar.xz*; }; }
name=$1 limit=$2 blocks=${3:-}; dir=$V/out/$name; mkdir -p "$dir"
export VERDRAFT_HOME=$V/home-$name; mkdir -p "$VERDRAFT_HOME"
for kept in client-range.json digests capabilities; do [ -e "$V/home/$kept" ] && cp -rn "$V/home/$kept" "$VERDRAFT_HOME/"; done
if [ -d "$V/state/$name" ] && [ ! -s "$dir/manifest.json" ]; then cp "$V/state/$name"/* "$dir"/; unpack_state; else
  [ -s "$dir/manifest.json" ] || python -m benchmarks.gpu.experiments "$name" --out "$dir" --runtime gpu --target small-wide ${blocks:+--blocks $blocks}
fi
resume=(); [ -e "$dir/state.tar" ] && [ ! -e "$VERDRAFT_HOME/postgres" ] && resume=(--resume "$dir/state.tar")
go() { verdraft run "$dir/manifest.json" --bundle "$dir/bundle.tar.zst" --state "$dir/state.tar" --time-limit "$limit" "${resume[@]}"; }
( go; code=$?
  if [ $code = 1 ] && [ ! -e "$VERDRAFT_HOME/postgres" ] && [ -e "$VERDRAFT_HOME/client-range.json" ]; then
    echo 'refused before anything started; once more without the calibration, each run judges itself'; rm "$VERDRAFT_HOME/client-range.json"; go; code=$?
  fi; echo "exit $code"; echo $code > "$dir/exit" ) > "$V/logs/$name.log" 2>&1
