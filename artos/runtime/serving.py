"""A member process from set-up to its last report."""

from __future__ import annotations

import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from artos.buffer.board import LEARNER, Board
from artos.buffer.model_block import ModelBlock
from artos.envs.known import KNOWN
from artos.errors import BadRow
from artos.plan import Plan, Site
from artos.protocol.invocations import Failed, Ready, StartKind
from artos.runtime.build_role import (
    MODEL,
    actor_context,
    learner_role,
    own_streams,
    prepared_actor,
)
from artos.runtime.member import TRACE_BYTES, Line, Role, serve
from artos.runtime.roles import ActorRole
from artos.system import child


@dataclass(frozen=True)
class Prepared:
    """A workload's actor with all done that is the same for every actor."""

    plan: Plan
    actor: Any


def serve_site(site_text: str, plan_file: str) -> int:
    """Set up the member that ``site_text`` (JSON) names, report, serve; returns the exit status."""
    site = msgspec.json.decode(site_text, type=Site)
    return _serve(site, "fork" if child.forked else "cold", lambda: _role(plan_in(plan_file), site))


def prepare_site(site_text: str, plan_file: str, *, environments: bool) -> Prepared | None:
    """Prepare an actor without identity and report it as ``site_text`` says; None if that failed.

    Afterwards the process holds nothing of the run's shared memory.
    """
    began = time.perf_counter()
    line = _line(msgspec.json.decode(site_text, type=Site))
    try:
        plan = plan_in(plan_file)
        prepared = Prepared(plan, prepared_actor(plan, environments=environments))
    except (Exception, SystemExit) as error:
        line.send(failed_to_start(error))
        return None
    _name_threads()
    _settle()
    line.send(Ready(time.perf_counter() - began))
    return prepared


def _name_threads() -> None:
    """Give threads their Python names in the kernel, where CRIU's culprits are looked up."""
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            with suppress(OSError):
                Path(f"/proc/self/task/{thread.native_id}/comm").write_text(thread.name)


def _settle() -> None:
    # What is here now stays: the collector need not touch, and so copy, its pages in every clone.
    gc.collect()
    gc.freeze()
    # Or every clone would print again what was printed so far.
    sys.stdout.flush()
    sys.stderr.flush()


def serve_prepared(prepared: Prepared, site: Site, start: StartKind) -> int:
    """Continue as the actor that ``site`` names, report, serve; returns the exit status."""
    return _serve(site, start, lambda: _actor(prepared, site))


def _serve(site: Site, start: StartKind, build: Callable[[], tuple[Role, int]]) -> int:
    began = time.perf_counter()
    line = _line(site)
    try:
        role, incarnation = build()
    except (Exception, SystemExit) as error:
        line.send(failed_to_start(error))
        return 3
    line.send(Ready(time.perf_counter() - began, incarnation, start))
    status = serve(role, line)
    role.close()
    return status


def failed_to_start(error: BaseException) -> Failed:
    """The report of a member whose set-up raised."""
    step = error.step if isinstance(error, BadRow) else 0
    return Failed(0, step, "".join(traceback.format_exception(error))[-TRACE_BYTES:])


def plan_in(plan_file: str) -> Plan:
    """The plan that a file holds as JSON; this process is one of its run's."""
    plan = msgspec.json.decode(Path(plan_file).read_bytes(), type=Plan)
    if plan.env_spec is not None:  # else a builder that asks for the facts makes an environment
        KNOWN[plan.env] = plan.env_spec
    return plan


def _line(site: Site) -> Line:
    return Line(Board.attach(site.board_path, site.members), site.member)


def _role(plan: Plan, site: Site) -> tuple[Role, int]:
    if site.member == LEARNER:
        return learner_role(plan, site, ModelBlock.attach(site.model_path)), 0
    return _actor(Prepared(plan, prepared_actor(plan)), site)


def _actor(prepared: Prepared, site: Site) -> tuple[Role, int]:
    """The same steps in the same order, prepared long ago or just now: so are the rows."""
    context = actor_context(prepared.plan, site)
    own_streams(context.seed)
    model = ModelBlock.attach(site.model_path)
    return ActorRole(prepared.actor, context, model[MODEL]), context.incarnation
