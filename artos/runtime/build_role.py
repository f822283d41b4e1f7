"""Builds the role of a member from the plan: where user code is imported and set up."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from artos.actors.context import ActorContext
from artos.buffer.actor_block import ActorBlock
from artos.buffer.model_block import ModelBlock
from artos.learners.context import LearnerContext
from artos.learners.publisher import Publisher, published
from artos.plan import Plan, Site
from artos.runtime.reference import load_workload
from artos.runtime.roles import ActorRole, LearnerRole
from artos.spec import Workload

MODEL = "model_param"


def seed_of(seed: int, *path: int) -> int:
    """A seed of its own for every path, e.g. (actor, incarnation); 31 bits suit every library."""
    return int(np.random.SeedSequence([seed, *path]).generate_state(1)[0] >> 1)


def actor_role(plan: Plan, site: Site, model: ModelBlock) -> tuple[ActorRole, int]:
    """Set up an actor as one part of a process; returns the role and its incarnation."""
    context = actor_context(plan, site)
    return ActorRole(_workload(plan).actor, context, model[MODEL]), context.incarnation


def actor_context(plan: Plan, site: Site) -> ActorContext:
    """Take over the block of the actor that ``site`` names, as its next incarnation."""
    number = site.member - 1
    block = ActorBlock.attach(site.block_path(number))
    incarnation = block.begin_incarnation()
    seed = seed_of(plan.seed, number, incarnation, plan.resumes)
    return ActorContext(plan, number, incarnation, block, seed)


def prepared_actor(plan: Plan, *, environments: bool = True) -> Any:
    """Do all of an actor's set-up that needs no identity, so that clones can share it.

    An actor may have ``prepare(plan, environments=…)``, called once before ``setup``: imports, the
    network and, if asked for, environments that are made the same for every actor. Without
    environments the process is going to be forked: no threads or open files may remain.
    """
    actor: Any = _workload(plan).actor
    if hasattr(actor, "prepare"):
        actor.prepare(plan, environments=environments)
    return actor


def own_streams(seed: int) -> None:
    """Seed the global generators: clones have them in common, and user code may draw from them."""
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def learner_role(plan: Plan, site: Site, model: ModelBlock) -> LearnerRole:
    """Set up this process (or inline part) as the learner."""
    workload = _workload(plan)
    actor: Any = workload.actor
    learner: Any = workload.learner
    blocks = {a: ActorBlock.attach(site.block_path(a)) for a in range(plan.actors)}
    # Actors are being set up, too: threads of a network's set-up would wait for CPUs, spinning.
    _settle_torch(plan, 1)
    module = actor.build_module(plan.seed)
    _settle_torch(plan, plan.threads)
    objects = {name: region for name, region in model.objects.items() if name != MODEL}
    publish = Publisher(published(workload), objects)
    learner.setup(LearnerContext(plan, module, plan.seed, plan.threads, blocks, publish))
    return LearnerRole(learner, model[MODEL], blocks)


def _settle_torch(plan: Plan, threads: int) -> None:
    """Tell torch its threads and its seed, unless user code does without it (so far)."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(True)
        torch.manual_seed(plan.seed)


def _workload(plan: Plan) -> Workload:
    workload = load_workload(plan.reference)
    actor: Any = workload.actor
    if hasattr(actor, "adopt") and plan.env_spec is not None:
        actor.adopt(plan.env_spec)
    return workload
