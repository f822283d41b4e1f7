"""Processes of other users than the one who runs the tests, who must be root for that."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from helpers import ROOT

# The interpreter may lie below a folder that others cannot enter: in a mount namespace of its own
# that folder has nothing but the interpreter.
_APART = """
set -e
if [ -n "{hidden}" ]; then
    mount --bind {base} {place}
    mount -t tmpfs -o mode=755 tmpfs {hidden}
    mkdir -p {base}
    mount --bind {place} {base}
fi
{more}
exec "$@"
"""


def why_no_user() -> str:
    """Why no other user can run tests of this checkout; empty if one can."""
    if os.geteuid() != 0:
        return "only root can become another user"
    places = {*(ROOT / "artos" / "__init__.py").parents, *Path(sys.prefix).parents}
    closed = [str(each) for each in places if not each.stat().st_mode & 0o001]
    readable = (ROOT / "artos" / "__init__.py").stat().st_mode & 0o004
    return f"another user cannot read {', '.join(closed) or ROOT}" if closed or not readable else ""


def readable_by_all(place: Path, *more: str) -> Sequence[str]:
    """What runs a command where all users can use this interpreter; ``more`` is done there first.

    ``place`` is an empty folder.
    """
    above = reversed(Path(sys.base_prefix).resolve().parents)
    hidden = next((str(each) for each in above if not each.stat().st_mode & 0o001), "")
    script = _APART.format(hidden=hidden, base=sys.base_prefix, place=place, more="\n".join(more))
    return ("unshare", "--mount", "sh", "-c", script, "sh")
