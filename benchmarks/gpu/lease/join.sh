# An environment of ours for the service: this checkout, its packages, and below them what the machine's Python brings.
. benchmarks/gpu/lease/common.sh
rm -rf "$V/env"
"$BASE" - "$V" "$PWD" <<'PY'
import sys, sysconfig, pathlib
v, here = pathlib.Path(sys.argv[1]), sys.argv[2]
base = pathlib.Path(getattr(sys, "_base_executable", sys.executable))
site = v / "env" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
site.mkdir(parents=True); (v / "env" / "bin").mkdir()
(v / "env" / "bin" / "python").symlink_to(base)
(v / "env" / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
below = sysconfig.get_path("purelib")
(site / "layers.pth").write_text(f"{here}\n{v}/service/pkgs\nimport site; site.addsitedir({below!r})\n")
start = v / "env" / "bin" / "verdraft"
start.write_text(f"#!{v}/env/bin/python\nfrom app.cli import main\nmain()\n"); start.chmod(0o755)
PY
cp "$V/service/pkgs/bin/redis-server" "$V/env/bin/"; chmod 755 "$V/env/bin/redis-server"; chmod -R a+rX "$V/service" "$V/env"
