# At most 8 files of 16 MiB come back: bundle, state, frozen experiment, and all logs in one archive.
. benchmarks/gpu/lease/common.sh
dir=$V/out/$1; mkdir -p "$OUT"
[ -e "$dir/bundle.tar.zst" ] && cp "$dir/bundle.tar.zst" "$OUT/$1-bundle.tar.zst"
tar -C "$dir" -c --exclude '*.zst' --exclude state.tar . | xz -T0 -3 > "$OUT/$1-frozen.tar.xz"
logs=("$V/logs"); [ -d "$V/home-$1/logs" ] && logs+=("$V/home-$1/logs")
for log in $(ls -td /tmp/verdraft-*/engine.log /tmp/*/engine.log 2>/dev/null | head -2); do logs+=("$log"); done
for log in $(find "$V/home-$1/artifacts" -type f -size -1500k 2>/dev/null | xargs -r grep -lI -m1 'vLLM\|vllm' | head -40); do logs+=("$log"); done
tar -c "${logs[@]}" 2>/dev/null | xz -T0 -3 > "$OUT/$1-logs.tar.xz"
[ -e "$dir/state.tar" ] && xz -T0 -3 -c "$dir/state.tar" | split -b 15M -d -a 2 - "$OUT/$1-state.tar.xz."
ls -l "$OUT"
