"""A process that goes first: its threads do, too, and where it may not it goes on as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT

from workers.host.priority import may_raise

GOES_FIRST = """
import os, resource, sys, threading
from pathlib import Path
from artos.system.precedence import go_first

if sys.argv[1] == "without":
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
before = os.getpriority(os.PRIO_PROCESS, 0)
may = go_first(5, Path(sys.argv[2]))
found = []
thread = threading.Thread(target=lambda: found.append(os.getpriority(os.PRIO_PROCESS, 0)))
thread.start()
thread.join()
print(may, before - found[0])
"""


@pytest.mark.skipif(not may_raise(), reason="this user may not raise priorities")
@pytest.mark.parametrize(("how", "said"), [("with", "True 5"), ("without", "False 0")])
def test_it_goes_before_others_where_it_may(how: str, said: str, tmp_path: Path) -> None:
    session = tmp_path / "autogroup"
    done = subprocess.run(
        [sys.executable, "-c", GOES_FIRST, how, str(session)], cwd=ROOT, capture_output=True,
        text=True, check=True, start_new_session=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == said, done.stderr
    if how == "with":
        assert session.read_text() == "-5"
