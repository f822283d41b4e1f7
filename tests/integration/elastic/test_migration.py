"""An actor moves from one host to another in mid-episode, and back, and nobody can tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from elastic import needs_criu
from migration_host import Host
from stage import ROUND, Rows, rows_here

pytestmark = needs_criu


@pytest.mark.long
@pytest.mark.processes
def test_an_actor_that_moves_there_and_back_samples_what_one_samples_that_never_moved(
    tmp_path: Path,
) -> None:
    bundle = tmp_path / "bundle"
    with Host("here", tmp_path) as here, Host("there", tmp_path, later=100_000) as there:
        assert not set(here.ask("namespaces")) & set(there.ask("namespaces"))
        old = here.ask("start")
        here.ask("act", ROUND)
        for stop, (source, target) in enumerate(((here, there), (there, here)), 2):
            source.ask("leave", str(bundle))
            maps = target.ask("arrive", str(bundle))
            assert (old in maps) == (target is here)
            target.ask("act", stop * ROUND)
        found = here.rows()
    assert found == rows_here("CartPole-v1", 0, rounds=3)
    assert is_mid_episode(found, ROUND)
    assert is_mid_episode(found, 2 * ROUND)


def is_mid_episode(rows: Rows, stop: int) -> bool:
    """Whether no environment had just ended an episode when row ``stop`` was to come."""
    ended = [np.frombuffer(rows[key], bool) for key in ("terminations", "truncations")]
    return not any(flags.reshape(-1, 2)[stop - 1].any() for flags in ended)
