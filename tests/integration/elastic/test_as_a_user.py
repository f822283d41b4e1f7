"""Images, clones and moves without root: other tests, run by a user with a few capabilities."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from elastic import needs_criu
from helpers import PATIENCE, ROOT

from workers.checkpoint.criu.find import find_criu
from workers.checkpoint.tiers import OF_A_USER


def why_no_user() -> str:
    """Why no other user can run tests of this checkout; empty if one can."""
    if os.geteuid() != 0:
        return "only root can become another user"
    places = {*(ROOT / "artos" / "__init__.py").parents, *Path(sys.prefix).parents}
    closed = [str(each) for each in places if not each.stat().st_mode & 0o001]
    readable = (ROOT / "artos" / "__init__.py").stat().st_mode & 0o004
    return f"another user cannot read {', '.join(closed) or ROOT}" if closed or not readable else ""


pytestmark = [
    needs_criu,
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.skipif(bool(why_no_user()), reason=why_no_user()),
]

USER = 65533
TESTS = (
    "tests/integration/daemons/test_moving_life.py",
    "tests/integration/elastic/test_prewarmed.py",
    "tests/artos/runtime/test_clones.py",
)
"""Moves of a cluster's actors, images restored ahead, clones of a template."""
# The interpreter may lie below a folder that others cannot enter: in a mount namespace of its own
# that folder has nothing but the interpreter.
_AS_USER = """
set -e
if [ -n "{hidden}" ]; then
    mount --bind {base} {place}
    mount -t tmpfs -o mode=755 tmpfs {hidden}
    mkdir -p {base}
    mount --bind {place} {base}
fi
exec setpriv --reuid={user} --regid={user} --clear-groups --inh-caps={caps} \\
    --ambient-caps={caps} "$@"
"""


def hidden() -> str:
    """The highest folder above the interpreter that other users cannot enter, "" if they can."""
    above = reversed(Path(sys.base_prefix).resolve().parents)
    return next((str(each) for each in above if not each.stat().st_mode & 0o001), "")


def test_a_user_has_images_clones_and_moves() -> None:
    with TemporaryDirectory(prefix="artos-user-") as name:
        home = Path(name)
        home.chmod(0o755)
        (place := home / "interpreter").mkdir()
        shutil.copy(find_criu(), home / "criu")
        (work := home / "work").mkdir()
        os.chown(work, USER, USER)
        script = _AS_USER.format(
            hidden=hidden(), base=sys.base_prefix, place=place, user=USER,
            caps=",".join(f"+{each.lower()}" for each in OF_A_USER),
        )  # fmt: skip
        env = {name: value for name, value in os.environ.items() if not name.startswith("ARTOS_")}
        env |= {
            "HOME": str(work), "XDG_CACHE_HOME": str(work / "cache"), "PYTHONPATH": str(ROOT),
            "ARTOS_CRIU": str(home / "criu"), "TMPDIR": str(work),
        }  # fmt: skip
        tests = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", *tests, "-rs", *TESTS], cwd=ROOT,
            env=env, capture_output=True, text=True, timeout=2 * PATIENCE, check=False,
        )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    last = done.stdout.strip().splitlines()[-1]
    assert "passed" in last
    assert "skipped" not in last, done.stdout[-3000:]
