"""Every pair of state and event: allowed ones lead where they should, all others are refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from remote_head import ONE, STEPS, block_at, sample

from artos.errors import ForbiddenMove
from artos.protocol import steering
from artos.protocol.message import Message
from artos.system.transitions import after, events
from head.run.remote.actor_placement import TABLE, ActorPlacement, Event, State
from head.run.remote.held_file import HeldFile

EXPECTED = """
unplaced   enter:placed    end:unplaced
node_lost  end:unplaced
placed     launch:launched end:placed  leave:unplaced lose:unplaced
launched   launch:launched call:called end:placed     leave:unplaced lose:node_lost
called     launch:launched call:called end:placed     leave:unplaced lose:node_lost
"""

ALLOWED = {
    (State(line.split()[0]), Event(pair.split(":")[0])): State(pair.split(":")[1])
    for line in EXPECTED.strip().splitlines()
    for pair in line.split()[1:]
}
EVERY_PAIR = [*itertools.product(State, Event)]


@pytest.mark.parametrize(("state", "event"), EVERY_PAIR)
def test_every_pair(state: State, event: Event) -> None:
    if (state, event) in ALLOWED:
        assert after(TABLE, state, event) is ALLOWED[state, event]
        return
    with pytest.raises(ForbiddenMove) as refused:
        after(TABLE, state, event)
    assert (refused.value.state, refused.value.move) == (state, event)
    assert refused.value.allowed == events(TABLE, state)


def test_every_state_is_reached_and_left() -> None:
    assert set(ALLOWED.values()) == set(State)
    assert all(events(TABLE, state) for state in State)


class Edge:
    """A placement on w1, and what it told whom."""

    def __init__(self, folder: Path) -> None:
        self.told: list[tuple[str, Message]] = []
        block, held = block_at(folder / "actor-0", 0), HeldFile(ONE, folder / "held-0", 1)
        self.placement = ActorPlacement(block, self, lambda: (5, {}), held)
        self.placement.begin_term(0)
        self.placement.bind("w1")

    def send(self, node: str, message: Message) -> None:
        self.told.append((node, message))

    def bring_to(self, state: State) -> None:
        there = self.placement
        if state is not State.UNPLACED:
            there.enter()
        if state in (State.LAUNCHED, State.CALLED, State.NODE_LOST):
            there.wanted = steering.Start
            there.launch(0)
        if state is State.CALLED:
            there.pass_message(sample(1, STEPS))
        if state is State.NODE_LOST:
            there.lose()
        assert there.state is state
        self.told.clear()


@pytest.fixture
def edge(tmp_path: Path) -> Edge:
    return Edge(tmp_path)


DO: dict[Event, Callable[[ActorPlacement], object]] = {
    Event.ENTER: lambda there: there.enter(),
    Event.LAUNCH: lambda there: there.launch(0),
    Event.LEAVE: lambda there: there.leave(by_bundle=False),
    Event.LOSE: lambda there: there.lose(),
}


@pytest.mark.parametrize(
    ("state", "event"),
    [pair for pair in EVERY_PAIR if pair not in ALLOWED and pair[1] in DO],
)
def test_nobody_is_told_of_what_cannot_happen(edge: Edge, state: State, event: Event) -> None:
    edge.bring_to(state)
    edge.placement.wanted = steering.Start
    with pytest.raises(ForbiddenMove):
        DO[event](edge.placement)
    assert (edge.placement.state, edge.told) == (state, [])


@pytest.mark.parametrize("state", [State.UNPLACED, State.NODE_LOST, State.PLACED])
def test_a_call_waits_where_there_is_no_process(edge: Edge, state: State) -> None:
    edge.bring_to(state)
    edge.placement.pass_message(sample(1, STEPS))
    assert edge.told == []
    assert [call.call for call in edge.placement.waiting] == [sample(1, STEPS)]


@pytest.mark.parametrize("state", [State.LAUNCHED, State.CALLED])
def test_a_call_waits_while_it_is_leaving(edge: Edge, state: State) -> None:
    edge.bring_to(state)
    edge.placement.target = "w2"
    edge.placement.pass_message(sample(1, STEPS, bind=False))
    assert edge.told == []
    edge.placement.target = "w1"
    edge.placement.pass_on()
    version = 5 if state is State.LAUNCHED else -1
    assert edge.told == [("w1", steering.Call(ONE, sample(1, STEPS, bind=False), version))]


@pytest.mark.parametrize("state", [*State])
def test_its_process_is_ended_where_there_is_one(edge: Edge, state: State) -> None:
    edge.bring_to(state)
    edge.placement.end()
    has_one = state in (State.LAUNCHED, State.CALLED)
    assert edge.told == ([("w1", steering.End(ONE))] if has_one else [])
    assert not edge.placement.given
