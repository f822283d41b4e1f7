"""The list of packages that ``artos submit --packages FILE`` sends with a run."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

from artos.errors import Refused
from artos.system.regular_file import contents
from artos.version import VERSION

_LOCK = "uv.lock"
_EXPORT = (
    "uv", "export", "--frozen", "--no-dev", "--no-header", "--no-emit-project",
    "--no-emit-package", "artos", "--format", "requirements-txt", "--directory",
)  # fmt: skip
_SECONDS = 60.0
_LOCAL = re.compile(
    r"^[ \t]*(-[erc]|--(?:editable|requirement|constraint)\b|(?:-f|--find-links)(?![= ]*https?:)"
    r"|[./]|(?!https?:)\S+\.whl\b|file:|[^#\s]+ *@ *(?:git\+)?(?:file:|[./])"
    r"|artos *(?:[=<>~!;@\[#]|\r?$))",
    re.MULTILINE | re.IGNORECASE,
)
"""What names files of this machine, or another version of ARTOS than the nodes have."""


def package_list(file: Path) -> bytes:
    """What pip is to install on each machine: a list for pip as it is, or what a uv.lock names.

    The latter has a checksum for each package, so that nothing else is installed.

    Raises:
        Refused: the file cannot be read, names files of this machine, there is no uv to read it, or
            it lacks a checksum, or is one for another version of ARTOS.
    """
    try:
        listed = _exported(file) if file.name == _LOCK else contents(file)
        text = listed.decode()
    except OSError as error:
        raise Refused([f"--packages {file}: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise Refused([f"--packages {file} is no text"]) from error
    if here := _LOCAL.search(text):
        raise Refused(
            [f"--packages {file} names what only this machine has, or ARTOS ({here[0].strip()}): "
             f"list packages of an index, all of them in one file"]
        )  # fmt: skip
    entries = [line for line in text.replace("\\\n", " ").splitlines() if line[:1].isalnum()]
    bare = [entry.split()[0] for entry in entries if "--hash=" not in entry]
    if bare and file.name == _LOCK:
        raise Refused(
            [f"--packages {file} has no checksum of {', '.join(bare)} (what is from git has none): "
             f"to have packages installed unverified, submit the list that `uv export --no-hashes "
             f"--no-emit-project -o requirements.txt` makes"]
        )  # fmt: skip
    return listed


def _exported(file: Path) -> bytes:
    if shutil.which("uv") is None:
        raise Refused([f"--packages {file}: only uv can read it, and it is not installed"])
    command = [*_EXPORT, str(file.resolve().parent)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Refused([f"--packages {file}: uv did not read it in {_SECONDS:g} s"]) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise Refused([f"--packages {file}: {said}"])
    locked = tomllib.loads(contents(file).decode()).get("package", [])
    for other in {each.get("version", VERSION) for each in locked if each["name"] == "artos"}:
        if other != VERSION:
            raise Refused(
                [f"--packages {file} has packages for ARTOS {other}, and this is {VERSION}: "
                 f"`uv lock --upgrade-package artos`, or submit with ARTOS {other}"]
            )  # fmt: skip
    return done.stdout
