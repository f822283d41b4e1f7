"""Evaluates policies that play games with each other: as actors of their run do, in one process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from artos.actors.agents import AgentsActor
from artos.errors import DeadlineExceeded, Refused
from artos.specs.bound import Bound
from artos.specs.contracts import Actor
from artos.trained.alone import Alone
from artos.trained.evaluation import During, Evaluation, Note, endless

if TYPE_CHECKING:
    from artos.trained.playing import Wanted
    from artos.trained.record import Record
    from artos.trained.trained import Trained


def evaluate_agents(trained: Trained, record: Record, wanted: Wanted, note: Note) -> Evaluation:
    """Play whole episodes; those of each agent that a policy of the run has learned to play.

    Raises:
        Refused: another game is named, or it is to be filmed.
        DeadlineExceeded: no episode ended in time.
    """
    faults = [*wanted.faults()]
    if wanted.video is not None:
        faults.append("games of several policies are not filmed: leave video out")
    if wanted.env != record.config.get("env"):
        faults.append(
            f"policies of agents play in their own game, not in {wanted.env}: leave env out"
        )
    if faults:
        raise Refused(faults)
    actor = record.workload().actor
    bound = replace(trained.bound, params=trained.params)
    return play_agents(actor, bound, trained.during, wanted, note, actor.policies)


def play_agents(
    actor: Actor, bound: Bound, during: During, wanted: Wanted, note: Note, of: Sequence[str]
) -> Evaluation:
    """Have all policies play with the weights that are ``bound``; episodes are those ``of`` some.

    Raises:
        DeadlineExceeded: no episode ended in time.
    """
    assert isinstance(actor, AgentsActor)  # who else has several policies
    with tempfile.TemporaryDirectory() as folder:
        at, greedy = Path(folder) / "rows", wanted.greedy
        with closing(Alone(actor, bound, during, wanted.seed, greedy=greedy, at=at)) as alone:
            return _played(actor, alone, wanted, note, of)


def _played(
    actor: AgentsActor,
    alone: Alone,
    wanted: Wanted,
    note: Note,
    of: Sequence[str],
) -> Evaluation:
    rows = sorted(row for name in of for row in actor.cast.places(name, actor.games).tolist())
    number, names = {row: at for at, row in enumerate(rows)}, actor.spec.agent_names
    found: dict[int, tuple[float, int]] = {}
    played, steps, since = [0] * len(rows), 0, time.monotonic()
    while len(found) < wanted.episodes:
        steps += alone.sample() * len(rows)
        returns, lengths = actor.episodes()
        for row, total, length in zip(actor.rows_ended, returns, lengths, strict=True):
            if (at := number.get(row)) is None:  # of a policy that is not asked for
                continue
            episode, played[at] = at + played[at] * len(rows), played[at] + 1
            if episode < wanted.episodes:
                found[episode], since = (total, length), time.monotonic()
        if time.monotonic() - since > wanted.deadline:
            raise DeadlineExceeded(endless(actor.env), wanted.deadline)
        note(len(found), steps)
    return Evaluation(
        env=wanted.env,
        seed=wanted.seed,
        greedy=wanted.greedy,
        returns=tuple(found[k][0] for k in range(wanted.episodes)),
        lengths=tuple(found[k][1] for k in range(wanted.episodes)),
        environments=len(rows),
        agents=tuple(names[rows[at % len(rows)] % len(names)] for at in range(wanted.episodes)),
    )
