"""A member process from set-up to its last word."""

from __future__ import annotations

import time
import traceback
from pathlib import Path

import msgspec

from artos.buffer.board import LEARNER, Board
from artos.buffer.model_block import ModelBlock
from artos.errors import BadRow
from artos.messages import Failed, Ready
from artos.plan import Plan, Site
from artos.runtime.build_role import actor_role, learner_role
from artos.runtime.member import TRACE_BYTES, Line, Role, serve


def serve_site(site_text: str, plan_file: str) -> int:
    """Set up the member that ``site_text`` (JSON) names, report, serve; returns the exit status."""
    began = time.perf_counter()
    site = msgspec.json.decode(site_text, type=Site)
    line = Line(Board.attach(site.board_path, site.members), site.member)
    try:
        plan = msgspec.json.decode(Path(plan_file).read_bytes(), type=Plan)
        role, incarnation = _role(plan, site, ModelBlock.attach(site.model_path))
    except (Exception, SystemExit) as error:
        line.send(failed_to_start(error))
        return 3
    line.send(Ready(time.perf_counter() - began, incarnation))
    status = serve(role, line)
    role.close()
    return status


def failed_to_start(error: BaseException) -> Failed:
    """The report of a member whose set-up raised."""
    step = error.step if isinstance(error, BadRow) else 0
    return Failed(0, step, "".join(traceback.format_exception(error))[-TRACE_BYTES:])


def _role(plan: Plan, site: Site, model: ModelBlock) -> tuple[Role, int]:
    if site.member == LEARNER:
        return learner_role(plan, site, model), 0
    return actor_role(plan, site, model)
