"""Continues an episode of a live run on this machine, and waits for what comes of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from artos.clock import Deadline
from artos.errors import DeadlineExceeded, NotBranched, Refused
from artos.protocol.control import BranchRun
from artos.runtime import control
from artos.system.regular_file import contents
from head.records.run_lock import is_live

MOST = 1000
"""Continuations of one order."""
_LOOK = 0.05  # seconds


def branch(
    run: Path,
    actor: int = 0,
    times: int = 1,
    *,
    env: int = 0,
    until: int | None = None,
    seed: int = 0,
    greedy: bool = False,
    seconds: float = 600.0,
) -> dict[str, Any]:
    """Continue an actor's present episode ``times`` times, until it ends or for ``until`` steps.

    Returns how (``by``), from where (``row``, ``version``, ``digest`` of what was seen, ``so_far``)
    and by child ``return``, ``steps``, ``ended``, ``seed`` and ``digest``. The run goes on.

    Raises:
        NotRunning: the run is not live.
        NotBranched: it was killed meanwhile.
        Refused: the episode cannot be continued, and why.
        DeadlineExceeded: not all continuations ended within so many ``seconds``.
    """
    if not 0 < times <= MOST:
        raise Refused([f"times={times}: an episode can be continued 1 to {MOST} times at once"])
    if until is not None and until < 1:
        raise Refused([f"until={until}: give a number of steps from 1, or END"])
    deadline = Deadline(seconds)
    order = BranchRun(run.name, actor, times, env, until or 0, seed, greedy)
    file = run / control.branch(run, order).file
    while not file.exists():
        if not is_live(run) and not file.exists():
            raise NotBranched(f"there is no live run in {run} any more")
        if deadline.left <= 0:
            raise DeadlineExceeded(f"the continuations of actor {actor}'s episode", seconds)
        time.sleep(min(_LOOK, deadline.left))
    found: dict[str, Any] = msgspec.json.decode(contents(file))
    if fault := found.pop("fault"):
        raise Refused([fault])
    return found
