"""Evaluates policies that play games with each other: as actors of their run do, in one process."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from artos.actors.agents import AgentsActor
from artos.actors.context import ActorContext
from artos.buffer.actor_block import ActorBlock
from artos.buffer.layout import BlockSpec
from artos.errors import DeadlineExceeded, Refused
from artos.protocol.invocations import Invoke
from artos.runs.plan import Plan
from artos.specs.keys import DataKey
from artos.trained.evaluation import Evaluation, Note, endless

if TYPE_CHECKING:
    from artos.trained.playing import Wanted
    from artos.trained.record import Record
    from artos.trained.trained import Trained

_ROUND = 64
"""Rows that are played at a time."""


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
    assert isinstance(actor, AgentsActor)  # who else has several policies
    with tempfile.TemporaryDirectory() as folder:
        block = _begun(actor, trained, record, wanted, Path(folder) / "rows")
        try:
            found = _played(actor, trained, block, wanted, note)
        finally:
            actor.close()
    return found


def _begun(
    actor: AgentsActor, trained: Trained, record: Record, wanted: Wanted, at: Path
) -> ActorBlock:
    """Set the actor up, with a block of its own."""
    keys, envs = (*actor.data_keys(),), actor.envs
    plan = Plan(
        reference=record.reference, name="", env=actor.env, seed=wanted.seed, actors=1, envs=envs,
        steps=_ROUND, capacity=_ROUND, on_full="overwrite", total_steps=0, data_keys=keys,
        objects=(), layout=(), triggers={}, methods={},
    )  # fmt: skip
    others = [part.versions for part in actor.parts.values()][1:]
    noted = (DataKey(name, (), "int64", 1, False) for name in others)
    block = ActorBlock.create(at, BlockSpec(0, (*keys, *noted), _ROUND, envs, (), "overwrite"))
    actor.setup(ActorContext(plan, 0, 1, block, wanted.seed, wanted.greedy))
    versions = {name: saved.version for name, saved in record.manifest.learners.items()}
    actor.bound = replace(trained.bound, params=trained.params, versions=versions)
    actor.bind(trained.params, actor.bound.version)
    return block


def _played(
    actor: AgentsActor, trained: Trained, block: ActorBlock, wanted: Wanted, note: Note
) -> Evaluation:
    rows = sorted(
        row for name in actor.policies for row in actor.cast.places(name, actor.games).tolist()
    )
    number, names = {row: at for at, row in enumerate(rows)}, actor.spec.agent_names
    found: dict[int, tuple[float, int]] = {}
    played, steps, since = [0] * len(rows), 0, time.monotonic()
    while len(found) < wanted.episodes:
        start = block.allocate(_ROUND)
        call = Invoke(
            0, "actors.sample", "sample", (), start + _ROUND, True, trained.progress, trained.steps
        )
        actor.sample(start, _ROUND, call)
        block.commit(start + _ROUND)
        steps += _ROUND * len(rows)
        returns, lengths = actor.episodes()
        for row, total, length in zip(actor.rows_ended, returns, lengths, strict=True):
            at = number[row]
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
