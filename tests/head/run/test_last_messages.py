"""A member that says that it failed, and has ended when that is heard, has failed once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from named import acting

from artos.protocol.invocations import Failed, FromMember, Ready
from artos.system.exit_report import ExitReport
from head.run.supervisor import OneMachine

ROLE = SimpleNamespace(samples=True)
ACTOR = acting(0)[0]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([Failed(1, 7, "it raised")], "it raised"),
        ([], "ended with exit status 3"),
        ([Ready(0.0)], "ended with exit status 3"),
    ],
)
def test_an_actor_whose_end_is_seen_before_its_message(said: list[FromMember], why: str) -> None:
    """It is to be started after a pause, so it has no process yet.

    That it is ready says that it was started again, unasked: it has not failed with that.
    """
    recovery, monitor = SimpleNamespace(booked=0), SimpleNamespace(restarts=0)
    deaths = list[str]()

    def failed(why: str) -> None:
        recovery.booked += 1
        monitor.restarts += 1
        deaths.append(why)

    def receive(message: FromMember) -> None:
        if isinstance(message, Failed):
            failed(message.trace)
        else:
            monitor.restarts += 1

    supervisor: Any = object.__new__(OneMachine)
    supervisor._hosts = {}
    supervisor._board = SimpleNamespace(members=SimpleNamespace(role=lambda member: ROLE))
    supervisor._coordinator = SimpleNamespace(
        monitor=monitor,
        concern=lambda kind: recovery,
        look=lambda member: None,
        receive=lambda member, message: receive(message),
        died=lambda member, death: failed(death.why),
    )
    supervisor._local_actors = SimpleNamespace(
        deaths=lambda: [(ACTOR, ExitReport("ended with exit status 3"))],
        reports=lambda member: said,
        pids=dict,
    )
    supervisor._follow_children()
    assert deaths == [why]
