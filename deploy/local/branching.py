"""Continues an episode of a live run whose process is here, and waits for what comes of it."""

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
_GRACE = 20.0
"""Seconds in which what has ended in time is told, and the rest is ended."""
_ANOTHER = "the process of {} that was asked has ended, and another one goes on: ask again"


def branch(
    run: Path,
    actor: int = 0,
    times: int = 1,
    *,
    env: int = 0,
    until: int | None = None,
    seed: int = 0,
    greedy: bool = False,
    weights: Path | None = None,
    best: bool = False,
    seconds: float = 600.0,
) -> dict[str, Any]:
    """Continue an actor's present episode ``times`` times, until it ends or for ``until`` steps.

    The continuations act with the actor's weights, or with the newest of the run in the folder
    ``weights``; with ``best`` with those of the best evaluation, of that run or of this one.

    Returns how (``by``), from where (``row``, ``version``, ``digest`` of what was seen, ``so_far``)
    and by child ``return``, ``steps``, ``ended``, ``seed``, ``digest``, and the ``version`` that
    acted, of the run in ``weights`` ("": the actor's own). Of one that failed, or had not ended
    within so many ``seconds`` and was ended, ``fault`` says why, and ``return`` is None. The run
    goes on.

    Raises:
        NotRunning: the run is not live.
        NotBranched: it was killed meanwhile.
        Refused: the episode cannot be continued, or not with those weights; all that is wrong.
        DeadlineExceeded: nothing was told long after these ``seconds``.
    """
    faults = []
    if not 0 < times <= MOST:
        faults.append(f"times={times}: an episode can be continued 1 to {MOST} times at once")
    if until is not None and until < 1:
        faults.append(f"until={until}: give a number of steps from 1, or END")
    if faults:
        raise Refused(faults)
    deadline = Deadline(seconds + _GRACE)
    if best and weights is None:
        weights = run
    order = BranchRun(
        run.name, actor, times, env, until or 0, seed, greedy,
        weights="" if weights is None else str(weights.resolve()), best=best,
        seconds=seconds,
    )  # fmt: skip
    file, process = run / control.branch(run, order).file, control.board_told(run)
    while not file.exists():
        # A process that goes on in its place knows nothing of what this one was asked for.
        gone = "" if control.board_told(run) in (process, "") else _ANOTHER.format(run)
        gone = gone if is_live(run) else f"there is no live run in {run} any more"
        if gone and not file.exists():
            raise NotBranched(gone)
        if deadline.left <= 0:
            waited = seconds + _GRACE
            raise DeadlineExceeded(f"the continuations of actor {actor}'s episode", waited)
        time.sleep(min(_LOOK, deadline.left))
    found: dict[str, Any] = msgspec.json.decode(contents(file))
    if fault := found.pop("fault"):
        raise Refused([fault])
    return found
