"""Every pair of state and move: allowed ones lead where they should, all others are refused."""

from __future__ import annotations

import itertools

import pytest

from artos.errors import ForbiddenMove
from artos.system.transitions import after, events
from workers.actors.actor_record import TABLE, Move, State

EXPECTED = """
cold          end:cold   start:starting      expect:arriving
arriving      end:cold   arrive:checkpointed lose:cold
starting      end:cold   started:parked      die:dead
running       end:cold   park:parked         die:dead
parked        end:cold   run:running         freeze:frozen    dump:dumping   die:dead \
              hand_over:handing-over
frozen        end:cold   thaw:parked         die:dead
dumping       end:cold   dumped:checkpointed refuse:parked
checkpointed  end:cold   restore:restoring
restoring     end:cold   restored:parked     lose:cold
handing-over  end:cold   handed_over:cold    die:dead
dead          end:cold
"""

ALLOWED = {
    (State(line.split()[0]), Move(pair.split(":")[0])): State(pair.split(":")[1])
    for line in EXPECTED.replace("\\\n", "").strip().splitlines()
    for pair in line.split()[1:]
}


@pytest.mark.parametrize(("state", "move"), [*itertools.product(State, Move)])
def test_every_pair(state: State, move: Move) -> None:
    if (state, move) in ALLOWED:
        assert after(TABLE, state, move) is ALLOWED[state, move]
        return
    with pytest.raises(ForbiddenMove) as refused:
        after(TABLE, state, move)
    assert (refused.value.state, refused.value.move) == (state, move)
    assert refused.value.allowed == events(TABLE, state)


def test_every_state_is_reached_and_left() -> None:
    assert set(ALLOWED.values()) == set(State)
    assert all(events(TABLE, state) for state in State)
