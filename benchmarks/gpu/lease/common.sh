# Sourced by every step, in the repository's root on the GPU machine (or in a rehearsal: V, BASE).
V=${V:-/tmp/v}; BASE=${BASE:-python3}
mkdir -p "$V"/{engine,models,service,runtimes,home,out,logs}
export VERDRAFT_HOME=$V/home VERDRAFT_RUNTIME_ROOT=$V/runtimes VERDRAFT_MODEL_ROOT=$V/models PYTHONUNBUFFERED=1
export VERDRAFT_STARTUP_TIMEOUT_S=400 VERDRAFT_HANG_TIMEOUT_S=90
unset PYTHONDONTWRITEBYTECODE
mark() { echo "== $(date +%T) $*"; }
unpack() { { xz -dc "$1" 2>/dev/null || "$BASE" -c "import lzma,shutil,sys;shutil.copyfileobj(lzma.open(sys.argv[1]),sys.stdout.buffer,1<<20)" "$1"; } | tar -x -C "$2"; }
keep() { cp -r "$V"/logs/. "$OUT"/ 2>/dev/null || true; }
