"""A stand-in for ``docker run``: writes down its argv, then runs the fake runtime as if it were the image.

What the image runs gets the environment that ``--env`` names and nothing else, as in a container.
"""

import sys
from pathlib import Path

_DOCKER = """#!{python}
import json
import os
import sys
from pathlib import Path

argv = sys.argv[1:]
log = Path({log!r})
log.write_text(json.dumps(argv))
if argv[0] != "run":
    sys.exit(f"the fake docker only runs, not {{argv[0]}}")
entry = argv.index("--entrypoint")
program = {{"vllm": "vllm", "python3": "python"}}[argv[entry + 1]]
inside = {{"PATH": "/usr/bin:/bin"}}
for flag, value in zip(argv[:entry], argv[1:entry], strict=False):
    if flag == "--env":
        name, equals, text = value.partition("=")
        inside[name] = text if equals else os.environ[name]
os.execve({image!r} + "/bin/" + program, [program, *argv[entry + 3:]], inside)
"""


def make_fake_docker(directory: Path, image: Path, *, name: str = "docker") -> Path:
    """Write the program into ``directory`` (made if need be); returns the file that will hold its last argv."""
    directory.mkdir(parents=True, exist_ok=True)
    log, program = directory / "argv.json", directory / name
    program.write_text(_DOCKER.format(python=sys.executable, log=str(log), image=str(image)))
    program.chmod(0o755)
    return log
