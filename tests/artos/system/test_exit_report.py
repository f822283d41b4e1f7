"""How the end of a process is told."""

from __future__ import annotations

import pytest

from artos.system.exit_report import ExitReport


@pytest.mark.parametrize(
    ("status", "words", "own"),
    [
        (-9, "killed by signal 9 (if no one did that, memory ran out", False),
        (-15, "killed by signal 15; its last output", False),
        (-11, "killed by signal 11; its last output", True),
        (3, "ended with exit status 3; its last output", True),
    ],
)
def test_what_ended_a_process(status: int, words: str, own: bool) -> None:
    death = ExitReport.of_process(7, status, "so it is")
    assert death.why.startswith(f"process 7 {words}")
    assert death.why.endswith("so it is")
    assert death.own is own
