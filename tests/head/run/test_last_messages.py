"""A member that says that it failed, and has ended when that is heard, has failed once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from named import acting

from artos.protocol.invocations import Failed
from artos.system.exit_report import ExitReport
from head.run.supervisor import OneMachine

ROLE = SimpleNamespace(samples=True)
ACTOR = acting(0)[0]


@pytest.mark.parametrize("said", [True, False])
def test_an_actor_whose_end_is_seen_before_its_message(said: bool) -> None:
    """It is to be started after a pause, so it has no process yet."""
    monitor, deaths = SimpleNamespace(restarts=0), list[str]()

    def failed(why: str) -> None:
        monitor.restarts += 1
        deaths.append(why)

    supervisor: Any = object.__new__(OneMachine)
    supervisor._hosts = {}
    supervisor._board = SimpleNamespace(members=SimpleNamespace(role=lambda member: ROLE))
    supervisor._coordinator = SimpleNamespace(
        monitor=monitor,
        look=lambda member: None,
        receive=lambda member, message: failed(message.trace),
        died=lambda member, death: failed(death.why),
    )
    supervisor._local_actors = SimpleNamespace(
        deaths=lambda: [(ACTOR, ExitReport("ended with exit status 3"))],
        reports=lambda member: [Failed(1, 7, "it raised")] if said else [],
        pids=dict,
    )
    supervisor._follow_children()
    assert deaths == ["it raised" if said else "ended with exit status 3"]
