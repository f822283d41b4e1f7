"""Entry point of actor and learner processes: ``python -m artos.runtime.process SITE PLAN_FILE``."""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path

import msgspec
import numpy as np

from artos.actors.context import ActorContext
from artos.buffer.actor_block import ActorBlock
from artos.buffer.board import LEARNER, Board
from artos.buffer.model_block import ModelBlock
from artos.messages import Failed, Ready
from artos.plan import Plan, Site
from artos.runtime.child import end_with_parent
from artos.runtime.member import Line, Role, serve
from artos.runtime.reference import load_workload
from artos.runtime.roles import ActorRole, LearnerRole

MODEL = "model_param"


def seed_of(seed: int, *path: int) -> int:
    """A seed of its own for every path, e.g. (actor, incarnation); 31 bits, so every library takes it."""
    return int(np.random.SeedSequence([seed, *path]).generate_state(1)[0] >> 1)


def actor_role(plan: Plan, site: Site, model: ModelBlock) -> tuple[ActorRole, int]:
    """Set up this process (or inline part) as an actor; returns the role and its incarnation."""
    number = site.member - 1
    block = ActorBlock.attach(site.block_path(number))
    incarnation = block.begin_incarnation()
    workload = load_workload(plan.reference)
    actor = workload.actor
    if hasattr(actor, "adopt") and plan.env_spec is not None:
        actor.adopt(plan.env_spec)
    seed = seed_of(plan.seed, number, incarnation, plan.resumes)
    context = ActorContext(plan, number, incarnation, block, seed)
    return ActorRole(actor, context, model[MODEL]), incarnation


def learner_role(plan: Plan, site: Site, model: ModelBlock) -> LearnerRole:
    """Set up this process (or inline part) as the learner."""
    import torch  # noqa: PLC0415

    from artos.learners.torch_learner import LearnerContext  # noqa: PLC0415

    torch.set_num_threads(plan.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(plan.seed)
    workload = load_workload(plan.reference)
    actor, learner = workload.actor, workload.learner
    if hasattr(actor, "adopt") and plan.env_spec is not None:
        actor.adopt(plan.env_spec)
    module = actor.build_module(plan.seed)  # type: ignore[attr-defined]
    learner.setup(LearnerContext(plan, module, plan.seed, plan.threads))
    blocks = {a: ActorBlock.attach(site.block_path(a)) for a in range(plan.actors)}
    return LearnerRole(learner, model[MODEL], blocks)


def main() -> int:
    """Set up, report ``Ready``, serve until told to stop."""
    end_with_parent()
    began = time.perf_counter()
    site = msgspec.json.decode(sys.argv[1], type=Site)
    plan = msgspec.json.decode(Path(sys.argv[2]).read_bytes(), type=Plan)
    line = Line(Board.attach(site.board_path, site.members), site.member)
    try:
        model = ModelBlock.attach(site.model_path)
        role, incarnation = _role(plan, site, model)
    except Exception:
        line.send(Failed(0, 0, traceback.format_exc()[-12_000:]))
        return 3
    line.send(Ready(time.perf_counter() - began, incarnation))
    return serve(role, line)


def _role(plan: Plan, site: Site, model: ModelBlock) -> tuple[Role, int]:
    if site.member == LEARNER:
        return learner_role(plan, site, model), 0
    return actor_role(plan, site, model)


if __name__ == "__main__":
    sys.exit(main())
