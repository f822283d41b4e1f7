"""A run that shared memory has no room for waits if it ever can have it, and is refused if not."""

from __future__ import annotations

import pytest

from artos.errors import ShmTooSmall
from artos.runs.exit_status import ExitStatus
from artos.system.shm import named_root
from head.records.status import Summary
from head.run.__main__ import outcome


@pytest.mark.parametrize(
    ("allowed", "status"),
    [("", ExitStatus.NO_ROOM), ("10", ExitStatus.NO_ROOM), ("9", ExitStatus.REFUSED)],
)
def test_it_waits_for_no_more_than_may_ever_be_taken(
    allowed: str, status: ExitStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTOS_SHM_BYTES", allowed)

    def run() -> Summary:
        raise ShmTooSmall(10, 0, str(named_root()))

    assert outcome(run)[0] == status
