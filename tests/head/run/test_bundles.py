"""Every pair of a bundle's state and event: allowed ones lead where they should, others nowhere."""

from __future__ import annotations

import itertools

import pytest

from artos.errors import ForbiddenMove
from artos.system.transitions import after, events
from head.run.remote.bundles import TABLE, Event, State

EXPECTED = """
queued    pack:packing    fail:failed
packing   packed:fetching fail:failed
fetching  take:fetching   complete:here fail:failed
here      offer:offered   withdraw:here
offered   offer:offered   give:offered  withdraw:here
"""

ALLOWED = {
    (State(line.split()[0]), Event(pair.split(":")[0])): State(pair.split(":")[1])
    for line in EXPECTED.strip().splitlines()
    for pair in line.split()[1:]
}


@pytest.mark.parametrize(("state", "event"), [*itertools.product(State, Event)])
def test_every_pair(state: State, event: Event) -> None:
    if (state, event) in ALLOWED:
        assert after(TABLE, state, event) is ALLOWED[state, event]
        return
    with pytest.raises(ForbiddenMove) as refused:
        after(TABLE, state, event)
    assert (refused.value.state, refused.value.move) == (state, event)
    assert refused.value.allowed == events(TABLE, state)


def test_every_state_but_the_first_is_reached() -> None:
    assert {*ALLOWED.values(), State.QUEUED} == set(State)
    assert [state for state in State if not events(TABLE, state)] == [State.FAILED]
