"""A run brings packages that no node has: once to each machine, and it is told if it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_cluster import Cluster

pytestmark = [pytest.mark.processes, pytest.mark.long]

MOO = """
from dataclasses import replace

import cowsay
import counting


def make(seed):
    print(f"{cowsay.__file__} moos")
    return counting.make(seed)


def workload(actors: int = 2, total_steps: int = 640):
    actor = counting.Walker("moo:make", envs=1)
    return replace(counting.workload(actors, total_steps), actor=actor)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The head's; each worker has its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "artos" / "environments"


def test_what_a_run_lists_is_installed_once_on_each_machine(
    cache: Path, cluster: Cluster, code: Path
) -> None:
    (code / "moo.py").write_text(MOO)
    (code / "requirements.txt").write_text("cowsay==6.1\n")
    cluster.start_worker("w1")
    cluster.alive("w1")
    cluster.hurry()
    needed = ("moo.py:workload", "--packages", "requirements.txt", "--json")
    made = []
    for number in (1, 2):
        submit = cluster.submit(*needed, cwd=code)
        assert submit.wait() == 0, cluster.story()
        made.append({path: path.stat().st_mtime_ns for path in cache.glob("*/packages.txt")})
        said = cluster.ask("logs", f"moo-workload-seed1-{number}", "--actor", 0)["text"]
        assert str(cluster.folder / "w1" / "artos" / "environments") in said
    assert len(made[0]) == 1
    assert made[1] == made[0]


def test_what_cannot_be_installed_is_told(cluster: Cluster, code: Path) -> None:
    (code / "requirements.txt").write_text("artos-has-no-such-package==1.0\n")
    submit = cluster.submit("counting.py:workload", "--packages", "requirements.txt", cwd=code)
    assert submit.wait() == 2, cluster.story()
    assert "cannot be installed" in submit.said
    assert "artos-has-no-such-package" in submit.said


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (None, "No such file"),
        ("artos>=0.1\n", "or ARTOS"),
        ("-e .\n", "(-e)"),
        ("numpy\n./mine\n", "(.)"),
    ],
)
def test_what_is_on_this_desk_only_is_refused(
    listed: str | None, words: str, cluster: Cluster, code: Path
) -> None:
    file = code / "list.txt"
    if listed is not None:
        file.write_text(listed)
    refused = cluster.refused("submit", "ppo", "--packages", file)
    assert words in refused
