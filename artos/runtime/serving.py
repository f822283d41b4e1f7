"""A member process from set-up to its last report; here user code is imported and set up."""

from __future__ import annotations

import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from artos.actors.context import ActorContext
from artos.buffer.actor_block import ActorBlock
from artos.buffer.data_block import DataBlock
from artos.buffer.desk import Bell, Desk
from artos.buffer.gathering import Gathering
from artos.buffer.mailbox import Board
from artos.buffer.model_block import ModelBlock
from artos.buffer.part_of_block import by_versions_of, part_of_block
from artos.buffer.request_block import RequestBlock
from artos.buffer.samplers.drawn_batch import sampler_of
from artos.clock import SystemClock
from artos.envs.known import KNOWN
from artos.errors import BadRow, CheckpointFault, ReplicaLost
from artos.learners.context import LearnerContext
from artos.learners.publisher import Publisher, published
from artos.learners.replicas import ALONE
from artos.protocol.invocations import Failed, Ready, StartKind, Waits
from artos.runs.loader import load_object, load_workload
from artos.runs.plan import Plan, Site
from artos.runtime.answering import Gathers, ServerRole
from artos.runtime.device_meter import meter_of
from artos.runtime.forkable import held, survives_a_fork
from artos.runtime.held import hand_over, take_up
from artos.runtime.member import (
    TRACE_BYTES,
    ActorRole,
    LearnerRole,
    Line,
    Role,
    no_duties,
    serve,
)
from artos.runtime.other_learners import PeerStates, other_learners
from artos.runtime.replicable import device_of_replica
from artos.runtime.shared_cores import SharedCores
from artos.runtime.taping import Recording, answers_file, not_at_all, recorder
from artos.specs.contracts import Actor
from artos.specs.devices import POOL
from artos.specs.keys import MODEL_PARAM
from artos.specs.members import ACTORS, EVALUATOR, LEARNER, SERVER, Member
from artos.specs.servers import ServerContext
from artos.specs.workload import Workload
from artos.system import child
from artos.system.exit_report import START_SECONDS
from artos.system.precedence import go_first
from artos.system.random_streams import own_streams, seed_of
from artos.system.regular_file import contents

if TYPE_CHECKING:
    from artos.buffer.samplers.hindsight import Goals
    from artos.runs.answers import AnswersFile
    from artos.runtime.leased import LeasedRole
    from artos.runtime.replica_group import ReplicaGroup

BellOf = Callable[[str], Bell]
_PATIENCE = 0.9
"""Share of the run's deadline: an actor says whose answer does not come before it is killed.

Replicas of a learner wait for each other for that share of the time that the run gives them.
"""


def no_bell(server: str) -> Bell:
    """Of a plan without servers."""
    raise KeyError(server)


def actor_role(
    plan: Plan, site: Site, model: ModelBlock, bell: BellOf = no_bell
) -> tuple[ActorRole, int]:
    """Set up an actor as one part of a process; returns the role and its incarnation.

    ``bell`` is how it wakes a server, by the server's name.
    """
    context, actor = actor_context(plan, site, bell), _workload(plan).actor
    others = other_learners(plan, site, actor.reads) if plan.read_learners else None
    return ActorRole(actor, context, model[MODEL_PARAM], others), context.incarnation


def actor_context(plan: Plan, site: Site, bell: BellOf = no_bell) -> ActorContext:
    """Take over the block of the actor that ``site`` names, as its next incarnation."""
    number = site.member.rank
    block = ActorBlock.attach(site.block_path(number))
    incarnation = block.begin_incarnation()
    seed = seed_of(plan.seed, number, incarnation, plan.resumes)
    desks = {}
    for spec in plan.servers:
        requests, ring = RequestBlock.attach(site.requests_path(spec.name)), bell(spec.name)
        patience = _PATIENCE * plan.deadline
        desks[spec.name] = [
            Desk(requests, number, seat, ring, patience, incarnation) for seat in range(spec.seats)
        ]
    return ActorContext(plan, number, incarnation, block, seed, desks=desks)


def bells(plan: Plan, site: Site) -> BellOf:
    """How the actor that ``site`` names wakes servers, and is woken: by the board's mailboxes."""
    if not plan.servers:
        return no_bell
    board = Board.attach(site.board_path, site.members)
    own = board.down(site.member).doorbell
    return lambda server: Bell(board.down(Member(server)).doorbell.ring, own.wait, own.drain)


def prepared_actor(plan: Plan, *, environments: bool = True) -> Actor:
    """Do all of an actor's set-up that needs no identity, so that clones can share it.

    Without environments the process is going to be forked: no threads or open files may remain, as
    with environments they would.
    """
    actor = _workload(plan).actor
    actor.prepare(plan, environments=environments)
    return actor


def learner_role(
    plan: Plan,
    site: Site,
    model: ModelBlock,
    report: Callable[[Waits], None] = lambda _: None,
    device: str | None = None,
    gathering: Gathering | None = None,
    record: Recording = not_at_all,
) -> LearnerRole:
    """Set up this process (or inline part) as the learner that ``plan`` is of.

    ``device`` is as torch names it. Where it is one of several replicas they are in a
    ``gathering``. ``record`` makes its tape.
    """
    device = device or device_of_replica(plan.device, site.member.rank)
    workload = _workload(plan)
    actor, learner = workload.actor, workload.every_learner[plan.learner]
    blocks = {a: ActorBlock.attach(site.block_path(a)) for a in range(plan.actors)}
    if part := plan.parts.get(plan.learner):
        blocks = {a: part_of_block(block, part) for a, block in blocks.items()}
    beside = part is None and plan.learner != site.members.publisher.role
    drawn = blocks  # from which rows are drawn, by the versions of this learner, if it acts
    if beside and plan.learner in plan.read_learners:
        drawn = {a: by_versions_of(block, plan.learner) for a, block in blocks.items()}
    data = {each.name: DataBlock.attach(site.data_path(each.name)) for each in plan.data}
    # Actors are set up at the same time: more threads here would spin while they wait for CPUs.
    _settle_torch(plan, 1)
    module = actor.seat(plan.learner).build_module(plan.seed)
    _settle_torch(plan, plan.threads)
    objects = {name: region for name, region in model.objects.items() if name != MODEL_PARAM}
    group, silent = None, site.member.rank > 0
    if gathering is not None:
        group = _group(plan, site, gathering, device)
    publish = Publisher(published(learner), objects, model[MODEL_PARAM], silent=silent)
    cores = None
    tape = record(plan, site)
    if plan.threads_follow:
        cores = tape.cores(partial(SharedCores, plan.threads))
    learner.setup(
        LearnerContext(
            plan, module, plan.seed, plan.threads, blocks, publish, device,
            lambda what: report(Waits(what)), cores.look if cores else lambda: None, data,
            group or ALONE, PeerStates(plan, site, tape),
        )
    )  # fmt: skip
    if device != "cpu":
        from artos.learners.device import device_of  # noqa: PLC0415  # others do without torch

        device_of(device).pin(model.segment.memory)
    # One that is started again draws other rows, by the version that it finds, which a replay and
    # all replicas find, too. Version 0 may be that of a replica which is a moment ahead.
    found = model[MODEL_PARAM].version
    again = (0, found) if found > 0 else ()
    samplers = {}
    for number, draw in enumerate(plan.draws):
        if draw.target.startswith(f"{plan.learner}."):
            tape.goes_on(memory := site.priorities_path(draw.target))
            seed = seed_of(plan.seed, number, plan.resumes, *again)
            samplers[draw.target] = sampler_of(
                draw, drawn, seed, data, partial(_goals, plan), None if silent else memory
            )
    meter = meter_of(device)
    if beside and drawn is blocks:  # no version of its acted
        drawn = {}
    return LearnerRole(
        learner,
        model[MODEL_PARAM],
        blocks,
        samplers,
        meter,
        cores,
        publish,
        group,
        own=drawn,
        tape=tape,
    )


def _group(plan: Plan, site: Site, gathering: Gathering, device: str) -> ReplicaGroup:
    """The replicas of this learner, once all have come."""
    from artos.runtime.replica_group import ReplicaGroup  # noqa: PLC0415  # others are alone

    # Less than the run waits for a member, so that the error can name who is missing.
    step, meeting = _PATIENCE * plan.deadline, _PATIENCE * max(START_SECONDS, plan.deadline)
    return ReplicaGroup(
        Path(site.folder), gathering, site.member, site.starts, step, meeting, device
    )


def _goals(plan: Plan) -> Goals:
    """What the environment says of goals: one of the learner's own is asked."""
    from artos.envs.goal_rewards import GoalRewards  # noqa: PLC0415  # others need no environment
    from artos.envs.spec import EnvSpec  # noqa: PLC0415

    spec = msgspec.convert(plan.env_spec, EnvSpec, strict=False)
    return GoalRewards(plan.env, spec, plan.seed)


def any_learner_role(
    plan: Plan,
    site: Site,
    model: ModelBlock,
    report: Callable[[Waits], None],
    stopped: Callable[[], bool],
    record: Recording = not_at_all,
) -> LearnerRole | LeasedRole:
    """The learner that ``site`` names, which ``model`` is of; ``record`` makes its tape.

    If the plan says so, it is on a device of the machine's pool. See ``LeasedRole``.
    """
    plan = plan.of(site.member.role)
    gathering = None
    if plan.replicas > 1:
        gathering = Gathering.attach(site.gathering_of(plan.learner), plan.replicas)
        gathering.come(site.member.rank, site.starts)
    make = partial(learner_role, plan, site, model, report, gathering=gathering, record=record)
    if not plan.leases_device:
        return make()
    from artos.runtime.leased import leased  # noqa: PLC0415  # loads the pool, and torch

    return leased(make, plan, site, report, stopped, gathering)


def evaluator_role(plan: Plan, site: Site, episode_over: Callable[[], None]) -> Role:
    """Set up this process (or inline part) as the evaluator."""
    from artos.runtime.evaluating import EvaluatorRole  # noqa: PLC0415  # loads environments

    handed = ModelBlock.attach(site.evaluated_path)[MODEL_PARAM]
    return EvaluatorRole(_workload(plan).actor, plan, handed, episode_over)


def server_role(
    plan: Plan,
    site: Site,
    ring: Callable[[int], None],
    record: Callable[[str], AnswersFile | None] = lambda _: None,
) -> ServerRole:
    """Set up this process (or inline part) as a server; ``ring`` wakes an actor.

    ``record`` makes the file of what it answers.
    """
    (number,) = (n for n, each in enumerate(plan.servers) if each.name == site.member.role)
    spec, workload = plan.servers[number], _workload(plan)
    server = workload.answering[spec.name]
    _settle_torch(plan, spec.threads)
    device, turns = spec.device, None
    if device == POOL:
        from artos.runtime.device_turns import DeviceTurns  # noqa: PLC0415  # loads the pool

        turns = DeviceTurns(plan, site)
        device = turns.device
    server.setup(ServerContext(spec.name, workload.actor, plan.seed, device))
    if turns is not None and turns.memory is not None:
        turns.memory.tell()  # it was set up there
    # By its name, as triggers stand on the floor above.
    gathering: Callable[..., Gathers] = load_object("triggers.gathering:Gathering")
    load = partial(load_object, folder=plan.reference.folder)
    gathers = gathering(spec.target, plan.triggers[spec.target], load, SystemClock())
    block = RequestBlock.attach(site.requests_path(spec.name))
    weights = ModelBlock.attach(site.model_of(spec.of))[MODEL_PARAM] if spec.of else None
    # Readers are the actors, the node, and then the servers.
    return ServerRole(
        server, block, gathers, ring, weights, plan.actors + 1 + number, turns, record(spec.name)
    )


def _settle_torch(plan: Plan, threads: int) -> None:
    """Tell torch its threads and its seed, if anything has imported torch so far."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(True)
        torch.manual_seed(plan.seed)


def _workload(plan: Plan) -> Workload:
    workload = load_workload(plan.reference)
    if plan.env_spec is not None:
        workload.actor.adopt(plan.env_spec)
    return workload


@dataclass(frozen=True)
class PreparedActor:
    """A workload's actor after all set-up that is the same for every actor."""

    plan: Plan
    actor: Actor


def serve_site(site_text: str, plan_file: str) -> int:
    """Set up the member that ``site_text`` (JSON) names, report, serve; returns the exit status."""
    site = msgspec.json.decode(site_text, type=Site)
    start: StartKind = "fork" if child.forked else "cold"
    set_up = _SET_UP[site.members.role(site.member).kind]
    return _serve(site, start, lambda line: set_up(plan_in(plan_file), site, line))


def prepare_site(site_text: str, plan_file: str, *, forks: bool) -> PreparedActor | None:
    """Prepare an actor without identity and report it as ``site_text`` says; None if that failed.

    If it ``forks``, then with environments only where a fork keeps them. Afterwards the process
    maps nothing of the run's shared memory.
    """
    began = time.perf_counter()
    line = _line(msgspec.json.decode(site_text, type=Site))
    try:
        plan = plan_in(plan_file)
        before = held()
        # Before the trial, or it and this process would each import all of it.
        load_object(plan.reference.source, plan.reference.folder)
        whole = not forks or (held() == before and survives_a_fork(lambda: prepared_actor(plan)))
        prepared = PreparedActor(plan, prepared_actor(plan, environments=whole))
    except (Exception, SystemExit) as error:
        line.send(failed_to_start(error))
        return None
    # Threads get their Python names in the kernel: messages about CRIU's refusals use them.
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            with suppress(OSError):
                Path(f"/proc/self/task/{thread.native_id}/comm").write_text(thread.name)
    # Objects made so far stay: the collector need not touch, and so copy, their pages in clones.
    gc.collect()
    gc.freeze()
    # Or every clone would print again what was printed so far.
    sys.stdout.flush()
    sys.stderr.flush()
    line.send(Ready(time.perf_counter() - began, start="fork" if forks else "clone", whole=whole))
    return prepared


def serve_prepared(prepared: PreparedActor, site: Site, start: StartKind) -> int:
    """Continue as the actor that ``site`` names, report, serve; returns the exit status."""
    return _serve(site, start, lambda line: _actor(prepared, site, line))


def _serve(site: Site, start: StartKind, build: Callable[[Line], tuple[Role, int]]) -> int:
    began = time.perf_counter()
    line = _line(site)
    try:
        role, incarnation = build(line)
        take_up(role, site.held_path(site.member))
    except (Exception, SystemExit) as error:
        line.send(failed_to_start(error))
        return 3
    device = getattr(role, "device", "")
    line.send(Ready(time.perf_counter() - began, incarnation, start, device=device))
    if isinstance(role, ServerRole):
        status = role.serve(line)
    else:
        status = serve(role, line, getattr(role, "idle", no_duties))
    if status == 0 and line.stop is not None and line.stop.hand_over:
        hand_over(role, Path(line.stop.hand_over))
    role.close()
    return status


def failed_to_start(error: BaseException) -> Failed:
    """The report of a member whose set-up raised."""
    step = error.step if isinstance(error, BadRow) else 0
    text = "".join(traceback.format_exception(error))[-TRACE_BYTES:]
    # The same file would not fit the same code the next time either.
    fatal = isinstance(error, CheckpointFault)
    return Failed(0, step, text, fatal, others=isinstance(error, ReplicaLost))


def plan_in(plan_file: str) -> Plan:
    """The plan that a file holds as JSON; the facts about its environment are kept in ``KNOWN``."""
    plan = msgspec.json.decode(contents(Path(plan_file)), type=Plan)
    if plan.env_spec is not None:  # else a builder that asks for the facts makes an environment
        KNOWN[plan.env] = plan.env_spec
    return plan


def _line(site: Site) -> Line:
    return Line(Board.attach(site.board_path, site.members), site.member)


def _evaluator(plan: Plan, site: Site, line: Line) -> tuple[Role, int]:
    own_streams(plan.seed)
    return evaluator_role(plan, site, line.notify), 0


def _actor(prepared: PreparedActor, site: Site, line: Line) -> tuple[Role, int]:
    """Set an actor up, in the same steps whether it was prepared long ago or just now."""
    context = actor_context(prepared.plan, site, bells(prepared.plan, site))
    own_streams(context.seed)
    plan, actor, model = prepared.plan, prepared.actor, ModelBlock.attach(site.model_path)
    others = other_learners(plan, site, actor.reads) if plan.read_learners else None
    role = ActorRole(actor, context, model[MODEL_PARAM], others, line.told_to_stop)
    return role, context.incarnation


def _server(plan: Plan, site: Site, line: Line) -> tuple[Role, int]:
    del line
    go_first()  # before it has threads: while it waits for a CPU, so do all whom it answers
    own_streams(plan.seed)
    board = Board.attach(site.board_path, site.members)
    down = [board.down(member).doorbell for member in site.members.of(ACTORS)]
    record = partial(answers_file, plan, site)
    return server_role(plan, site, lambda actor: down[actor].ring(), record), 0


def _learner(plan: Plan, site: Site, line: Line) -> tuple[Role, int]:
    own_streams(plan.seed)
    model = ModelBlock.attach(site.model_of(site.member.role))
    return any_learner_role(plan, site, model, line.send, line.told_to_stop, recorder), 0


_SET_UP: dict[str, Callable[[Plan, Site, Line], tuple[Role, int]]] = {
    LEARNER: _learner,
    EVALUATOR: _evaluator,
    ACTORS: lambda plan, site, line: _actor(PreparedActor(plan, prepared_actor(plan)), site, line),
    SERVER: _server,
}
"""How the process of a member is set up, by the kind of its role."""
