"""Every pair of state and move: allowed ones lead where they should, all others are refused."""

from __future__ import annotations

import itertools

import pytest

from artos.errors import ForbiddenMove
from workers.actors.lifecycle import Move, State, after, moves

EXPECTED = """
cold          start:starting      expect:arriving
arriving      arrive:checkpointed lose:cold
starting      started:parked      lose:cold         die:dead
running       park:parked         die:dead
parked        run:running         freeze:frozen     dump:dumping    die:dead
frozen        thaw:parked         die:dead
dumping       dumped:checkpointed refuse:parked     die:dead
checkpointed  restore:restoring   lose:cold
restoring     restored:parked     lose:cold         die:dead
dead          bury:cold
"""

ALLOWED = {
    (State(line.split()[0]), Move(pair.split(":")[0])): State(pair.split(":")[1])
    for line in EXPECTED.strip().splitlines()
    for pair in line.split()[1:]
}


@pytest.mark.parametrize(("state", "move"), [*itertools.product(State, Move)])
def test_every_pair(state: State, move: Move) -> None:
    if (state, move) in ALLOWED:
        assert after(state, move) is ALLOWED[state, move]
        return
    with pytest.raises(ForbiddenMove) as refused:
        after(state, move)
    assert (refused.value.state, refused.value.move) == (state, move)
    assert refused.value.allowed == moves(state)


def test_every_state_is_reached_and_left() -> None:
    assert set(ALLOWED.values()) == set(State)
    assert all(moves(state) for state in State)
