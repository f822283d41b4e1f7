"""Servers on nodes, without nodes: who is started where, when they are ready, what a death is."""

from __future__ import annotations

import pytest

from artos.errors import BadMessage
from artos.protocol.invocations import Done, Failed, FromMember, Ready
from artos.protocol.message import Message
from artos.protocol.steering import ActorReport, Died, End, Start
from artos.specs.members import Member
from artos.system.exit_report import ExitReport
from head.run.remote.remote_servers import RemoteServers

JUDGE, OTHER = Member("judge"), Member("inference")
READY = Ready(2.0)


class Nodes:
    """What the nodes and the run were told."""

    def __init__(self, *servers: Member) -> None:
        self.told: list[tuple[str, Message]] = []
        self.begun: list[Member] = []
        self.servers = RemoteServers(
            servers, lambda node, message: self.told.append((node, message))
        )

    def join(self, *nodes: str) -> None:
        for node in nodes:
            self.servers.joined(node, self.begun.append)

    def ready(self, node: str, term: int = 1, member: Member = JUDGE) -> None:
        self.servers.heard(node, ActorReport(member, term, READY, 0))

    def dies(self, node: str, term: int = 1) -> None:
        self.servers.heard(node, Died(JUDGE, term, "killed", None, False, False, 0), (3,))

    def said(self) -> list[tuple[str, Message]]:
        told, self.told = self.told, []
        return told

    def reports(self) -> list[tuple[Member, FromMember | ExitReport]]:
        return [*self.servers.reports()]


@pytest.fixture
def nodes() -> Nodes:
    return Nodes(JUDGE)


def both(nodes: Nodes) -> None:
    nodes.join("w1", "w2")
    nodes.ready("w1")
    nodes.ready("w2")
    assert nodes.reports() == [(JUDGE, READY)]
    nodes.said()


def test_it_is_ready_once_it_is_ready_on_each_node(nodes: Nodes) -> None:
    assert nodes.servers.unplaced(JUDGE) == "a node with actors"
    nodes.join("w1", "w2")
    assert nodes.servers.unplaced(JUDGE) == ""
    assert nodes.said() == [("w1", Start(JUDGE, 1, 0)), ("w2", Start(JUDGE, 1, 0))]
    assert nodes.begun == [JUDGE, JUDGE]
    nodes.ready("w1")
    assert nodes.reports() == []
    nodes.ready("w2")
    assert nodes.reports() == [(JUDGE, READY)]


def test_it_is_started_again_where_it_died_and_nowhere_else(nodes: Nodes) -> None:
    both(nodes)
    nodes.dies("w2")
    ((member, death),) = nodes.reports()
    assert (member, death) == (JUDGE, ExitReport("on node w2: killed", own=False, asked_by=(3,)))
    nodes.servers.end(JUDGE)  # as the run does with every member that died
    nodes.servers.start(JUDGE)
    assert nodes.said() == [("w2", Start(JUDGE, 2, 0))]
    nodes.ready("w2", term=1)
    nodes.dies("w2", term=1)
    assert nodes.reports() == [], "of the process that was there before"
    nodes.ready("w2", term=2)
    assert nodes.reports() == [(JUDGE, READY)]


def test_what_it_raised_is_told_with_its_node(nodes: Nodes) -> None:
    both(nodes)
    nodes.servers.heard("w1", ActorReport(JUDGE, 1, Failed(0, 7, "Traceback"), 0), (0, 2))
    nodes.dies("w1")
    death = ExitReport("on node w1: Traceback", 7, asked_by=(0, 2))
    assert nodes.reports() == [(JUDGE, death)], "once"


def test_one_that_is_not_ready_in_time_is_ended_there_alone(nodes: Nodes) -> None:
    nodes.join("w1", "w2")
    nodes.ready("w1")
    nodes.said()
    nodes.servers.end(JUDGE)
    nodes.servers.start(JUDGE)
    assert nodes.said() == [("w2", End(JUDGE)), ("w2", Start(JUDGE, 2, 0))]


def test_a_node_that_joins_later_is_waited_for(nodes: Nodes) -> None:
    both(nodes)
    nodes.join("w3")
    assert nodes.begun == [JUDGE] * 3, "the run takes it for one that is being started"
    assert nodes.reports() == []
    nodes.ready("w3")
    assert nodes.reports() == [(JUDGE, READY)]


@pytest.mark.parametrize("restarted", [False, True])
def test_nobody_waits_for_a_node_that_is_gone(nodes: Nodes, *, restarted: bool) -> None:
    """Neither while its server is set up, nor while its server is dead."""
    both(nodes)
    nodes.join("w3")
    if restarted:
        nodes.ready("w3")
        nodes.dies("w3")
        assert len(nodes.reports()) == 2
    nodes.servers.left("w3")
    assert [member for member, _ in nodes.reports()] == [JUDGE]
    nodes.servers.start(JUDGE)
    nodes.servers.left("w3")
    assert nodes.reports() == [], "it is told once"
    nodes.servers.left("w1")
    nodes.servers.left("w2")
    assert nodes.servers.unplaced(JUDGE) == "a node with actors"
    assert nodes.reports() == []


def test_each_name_is_a_member_of_its_own() -> None:
    nodes = Nodes(JUDGE, OTHER)
    nodes.join("w1")
    assert nodes.said() == [("w1", Start(JUDGE, 1, 0)), ("w1", Start(OTHER, 1, 0))]
    nodes.ready("w1", member=OTHER)
    assert nodes.reports() == [(OTHER, READY)]
    assert (JUDGE in nodes.servers, Member("actors") in nodes.servers) == (True, False)


def test_nobody_invokes_it(nodes: Nodes) -> None:
    both(nodes)
    with pytest.raises(BadMessage, match="nobody invokes it"):
        nodes.servers.heard("w1", ActorReport(JUDGE, 1, Done(3, 0), 0))
    nodes.servers.heard("w9", ActorReport(JUDGE, 1, Done(3, 0), 0))
    assert nodes.reports() == [], "a node that the run does not know"
