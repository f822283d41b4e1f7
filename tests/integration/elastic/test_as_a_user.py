"""Images, clones and moves without root: other tests, run by an ordinary user.

It has a few capabilities, or none at all: what is started takes them in a namespace of its own.
"""

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
from other_users import readable_by_all, why_no_user

from workers.checkpoint.criu.find import find_criu
from workers.checkpoint.tiers import OF_A_USER

pytestmark = [
    needs_criu,
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.skipif(bool(why_no_user()), reason=why_no_user()),
]

USER = 65533
STARTED = (
    "tests/integration/daemons/test_moving_life.py",
    "tests/integration/elastic/test_prewarmed.py",
)
"""Moves of a cluster's actors, images restored ahead."""
OF_THE_TEST = ("tests/artos/runtime/test_clones.py",)
"""Clones of a template that the test itself starts."""


@pytest.mark.parametrize(
    ("rights", "tests"),
    [
        pytest.param(OF_A_USER, (*STARTED, *OF_THE_TEST), id="few", marks=pytest.mark.exhaustive),
        # As a systemd unit runs a worker.
        pytest.param({}, STARTED, id="none"),
    ],
)
def test_a_user_has_images_clones_and_moves(rights: dict[str, int], tests: tuple[str, ...]) -> None:
    with TemporaryDirectory(prefix="artos-user-") as name:
        home = Path(name)
        home.chmod(0o755)
        (place := home / "interpreter").mkdir()
        shutil.copy(find_criu(), home / "criu")
        (work := home / "work").mkdir()
        os.chown(work, USER, USER)
        caps = ",".join(["-all", *(f"+{each.lower()}" for each in rights)])
        as_user = (
            "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
            f"--inh-caps={caps}", f"--ambient-caps={caps}",
        )  # fmt: skip
        env = {name: value for name, value in os.environ.items() if not name.startswith("ARTOS_")}
        env |= {
            "HOME": str(work), "XDG_CACHE_HOME": str(work / "cache"), "PYTHONPATH": str(ROOT),
            "ARTOS_CRIU": str(home / "criu"), "TMPDIR": str(work),
        }  # fmt: skip
        plain = ("-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-rs")
        done = subprocess.run(
            [*readable_by_all(place), *as_user, sys.executable, "-m", "pytest", *plain, *tests],
            cwd=ROOT, env=env, capture_output=True, text=True, timeout=2 * PATIENCE, check=False,
        )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    last = done.stdout.strip().splitlines()[-1]
    assert "passed" in last
    assert "skipped" not in last, done.stdout[-3000:]
