"""What the transfer agent is told, also while it does not read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from named import acting

from artos.clock import ManualClock
from artos.protocol.data import Finish, Nudge, Terms
from artos.protocol.message import Message
from artos.runs.plan import Site
from artos.specs.members import Members
from workers.executor.agent_host import AgentHost


class Agent:
    """A sidecar that reads what it is told, or does not; one that is told to finish ends."""

    def __init__(self) -> None:
        self.reads, self.waited = True, 0.0
        self.told: list[Message] = []

    def start(self, orders: Any, first: Message, inherits: Any) -> None:
        del orders, inherits
        self.told.append(first)

    def tell(self, message: Message, seconds: float = 0.0) -> bool:
        reads, self.waited = self.reads, self.waited + seconds
        self.reads = reads or seconds > 0
        self.told += [message] * self.reads
        return self.reads

    def due(self) -> bool:
        return False

    def end(self, seconds: float) -> bool:
        del seconds
        return True


@pytest.fixture
def agent() -> Agent:
    return Agent()


@pytest.fixture
def host(agent: Agent, tmp_path: Path) -> AgentHost:
    site = Site(str(tmp_path), *acting(0), Members.of_run(1), str(tmp_path))
    plan: Any = SimpleNamespace(consumers=())
    host = AgentHost(plan, site, tmp_path / "plan", "", None, "w1", 1, ManualClock())
    host._sidecar = agent  # type: ignore[assignment]
    host.start()
    agent.told.clear()
    return host


@pytest.mark.parametrize("later", ["nudge", "reap"])
def test_terms_that_an_agent_does_not_read_are_told_once_it_does(
    host: AgentHost, agent: Agent, later: str
) -> None:
    agent.reads = False
    host.terms({0: 3})
    host.nudge()
    assert agent.told == []
    agent.reads = True
    getattr(host, later)()
    assert agent.told == [Terms({0: 3}), Nudge()][: 2 if later == "nudge" else 1]
    host.reap()
    assert agent.told.count(Terms({0: 3})) == 1


def test_an_agent_is_told_to_finish_and_what_it_has_to_ship_before(
    host: AgentHost, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "unsent", dict)
    agent.reads = False
    host.terms({0: 3})
    host.finish(10.0)
    assert agent.told == [Terms({0: 3}), Finish(10.0)]
    assert agent.waited
