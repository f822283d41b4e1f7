"""Neither daemon nor the replay process loads code of users, or what runs it."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from real_cluster import Cluster
from test_cluster_life import COUNTING, RUN, finished

pytestmark = [pytest.mark.processes, pytest.mark.long]

IMPORTED = re.compile(r"^import time: +\d+ \| +\d+ \| +(\S+)$", re.MULTILINE)
USERS = {"torch", "gymnasium", "artos.runs.loader", "artos.runtime.register"}
"""What loads code of users (a module loaded by its file is not told), and what that needs."""


def imported(said: str) -> set[str]:
    found = set(IMPORTED.findall(said))
    assert "artos.errors" in found, "imports are not told"
    return found


def test_daemons_and_the_replay_process_import_no_code_of_users(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # every process says what it imports
    with closing(Cluster(tmp_path)) as cluster:
        cluster.start_worker("w1")
        cluster.alive("w1")
        finished(cluster, cluster.submit(*COUNTING, "--json", cwd=code))
        assert set(cluster.stop().values()) == {0}
        logs = cluster.runs / RUN / "logs"
        (template,) = tmp_path.glob("w1/artos/nodes/*/*/logs/template.log")
        assert "artos.runs.loader" in imported(template.read_text()), "it loads that code"
        for said in (cluster.head.said, cluster.workers["w1"].said):
            assert imported(said) & USERS == set()
        assert imported((logs / "replay-0.log").read_text()) & USERS == set()
