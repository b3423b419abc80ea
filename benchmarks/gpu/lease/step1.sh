# What the machine is; models; the widened target is made in the background while the other parts arrive.
. benchmarks/gpu/lease/common.sh
mark machine
nvidia-smi || true
nvidia-smi -q > "$V/logs/nvidia-smi.txt" 2>&1 || true
uname -a; head -2 /etc/os-release; nproc; free -g | head -2; df -h /tmp | tail -1; hostname; ulimit -n
"$BASE" -c 'import sys,sysconfig; print(sys.version, sys.executable, sys._base_executable, sysconfig.get_path("purelib"), sysconfig.get_path("include"), sys.path)'
"$BASE" -m pip list --format=freeze > "$V/logs/pip.txt" 2>&1 || true
grep -iE '^(torch|triton|transformers|numpy|scipy|pandas|pyarrow|statsmodels|nvidia-ml-py)==' "$V/logs/pip.txt"
echo "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}"; env | grep -iE 'cuda|nccl|nvshmem|torch' || true
# servers inherit nothing, so the driver's libraries must be found without LD_LIBRARY_PATH
if ! { ldconfig -p | grep -q libcuda.so.1 && ldconfig -p | grep -q libnvidia-ml.so.1; }; then
  find /usr/local/nvidia /usr/lib/x86_64-linux-gnu \( -name 'libcuda.so.1' -o -name 'libnvidia-ml.so.1' \) -printf '%h\n' 2>/dev/null | sort -u | head -3 > /etc/ld.so.conf.d/zz-driver.conf
  ldconfig; cat /etc/ld.so.conf.d/zz-driver.conf
fi
ldconfig -p | grep -E 'libcuda.so.1|libnvidia-ml.so.1' || echo 'NO libcuda.so.1 BY ldconfig'
which gcc setpriv xz || true
mark models
unpack .gpu/carry-1/target.tar.xz "$V/models"
rm -rf "$V/models/small-wide"
setsid nohup "$BASE" benchmarks/gpu/widening.py "$V/models/small-target" "$V/models/small-wide" --layers "${LAYERS:-32}" --width "${WIDTH:-131072}" > "$V/logs/widening.log" 2>&1 &
mark done
