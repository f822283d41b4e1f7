"""A user's own algorithm, in a folder whose files are called like our packages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from real_runs import Artos, Outcome

pytestmark = pytest.mark.processes

HELPERS = "def double(x):\n    return 2 * x\n"


@pytest.mark.long
@pytest.mark.parametrize("mode", [(), ("--inline",)], ids=["processes", "inline"])
def test_files_called_like_our_packages(
    mode: tuple[str, ...], start: Callable[..., Artos], home: Path
) -> None:
    for name in ("workers.py", "triggers_test.py", "deploy.py", "head.py"):
        (home / name).write_text(HELPERS)
    own = "\n".join(
        [
            "from workers import double",
            "from triggers_test import double as again",
            "import head, deploy",
            "assert again(head.double(deploy.double(1))) == 8",
        ]
    )
    toys = (home / "toys_to_run.py").read_text()
    (home / "toys_to_run.py").write_text(f"{toys}\n{own}\n")
    text = (home / "faulty_algorithms.py").read_text()
    (home / "my_algo.py").write_text(f"{text}\n{own}\n")
    outcome = start("run", "my_algo.py:good", "--json", *mode).wait()
    assert outcome.status == 0, outcome.err
    assert outcome.summary["updates"] == 10


def test_builtin_algorithm_in_such_a_folder(artos: Callable[..., Outcome], home: Path) -> None:
    for name in ("workers.py", "triggers.py", "artos.py"):
        (home / name).write_text(HELPERS)
    outcome = artos("explain", "ppo", "--env", "toys_to_run:plain", "--json")
    assert outcome.status == 0, outcome.err
