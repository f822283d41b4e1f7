"""A registered workload as plain data: everything that its processes need to know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from xxhash import xxh3_64_hexdigest

from artos.buffer.layout import BlockSpec, Consumer
from artos.buffer.model_block import ObjectSpec
from artos.buffer.part_of_block import Part
from artos.buffer.request_block import RequestSpec
from artos.buffer.samplers.patterns import Draw
from artos.buffer.shm_folder import PREFIX, PRIORITIES
from artos.specs.actor_count import Actors, Manual
from artos.specs.configuration import MAX_LAG, Changeable
from artos.specs.data import DataSet
from artos.specs.devices import CPU, POOL
from artos.specs.elastic import Elastic
from artos.specs.keys import (
    EVALUATION,
    MODEL_PARAM,
    OTHER_VERSIONS,
    ArraySpec,
    CheckpointSetting,
    DataKey,
    OnFull,
    read_as,
)
from artos.specs.members import LEARNER, TRANSFER, Member, Members
from artos.specs.reference import Reference
from artos.specs.servers import ServerSpec

_HELD_BY_MEMBERS = (
    "actors", "scaling", "envs", "steps", "capacity", "on_full", "data_keys", "layout", "triggers",
)  # fmt: skip


class Beside(msgspec.Struct, frozen=True):
    """A learner beside the first one, whose weights actors act with; fields are as in ``Plan``."""

    learner: str
    seed: int
    objects: tuple[ObjectSpec, ...] = ()
    layout: tuple[tuple[str, tuple[int, ...]], ...] = ()
    non_publishing: tuple[str, ...] = ()
    threads: int = 1
    threads_follow: bool = False
    device: str = CPU
    changeable: tuple[Changeable, ...] = ()
    replicas: int = 1


class Plan(msgspec.Struct, frozen=True):
    """The registered workload."""

    reference: Reference
    name: str
    env: str
    seed: int
    actors: int
    """Registered actors, which all have blocks."""
    envs: int
    steps: int
    capacity: int
    on_full: OnFull
    total_steps: int
    """Of environments; 0 is no limit."""
    data_keys: tuple[DataKey, ...]
    objects: tuple[ObjectSpec, ...]
    layout: tuple[tuple[str, tuple[int, ...]], ...]
    """Names and shapes of the parameters inside the flat vector ``params``."""
    triggers: dict[str, dict[str, Any]]
    """Encoded triggers by target."""
    methods: dict[str, tuple[str, ...]]
    """What each role can be asked to do."""
    non_publishing: tuple[str, ...] = ()
    """Methods of the learner that publish nothing."""
    consumers: tuple[Consumer, ...] = ()
    draws: tuple[Draw, ...] = ()
    short_rounds: bool = False
    """Whether an actor may end a round before it has written all of its rows."""
    threads: int = 1
    """Compute threads of the learner; the most of them with ``threads_follow``."""
    threads_follow: bool = False
    """Whether the learner takes as many threads as there are free cores."""
    env_spec: Any = None
    """The environment's facts as plain data, so that only actors need to build it."""
    state_keys: tuple[str, ...] = ()
    """Data keys that hold a recurrent policy's state."""
    wanted: tuple[str, ...] = ()
    """Objects that are read."""
    resumes: int = 0
    """How often the run was continued, which keeps its seed streams distinct."""
    deadline: float = 300.0
    """Seconds that a member may take to carry out one invocation."""
    scaling: Actors | None = None
    """How many actors take part, and when; None: all, always."""
    total_updates: int = 0
    """0 is no limit."""
    elastic: Elastic = Elastic()
    evaluate_every: int = 0
    evaluation_episodes: int = 10
    """Whole episodes of each evaluation."""
    checkpoint: CheckpointSetting = "model"
    """What is saved."""
    device: str = CPU
    """Where the learner computes: ``"cpu"``, ``"cuda:0"``, or ``"pool"``.

    There it leases one of its machine's pool for each update, by ``weight`` and ``priority``.
    """
    weight: float = 1.0
    priority: int = 0
    networks: tuple[tuple[str, str], ...] = ()
    """Which network of a built-in policy takes an observation, by data key, for people."""
    doubts: tuple[str, ...] = ()
    """What is odd about the observations."""
    replicas: int = 1
    """Processes that make each update of the first learner together."""
    data: tuple[DataSet, ...] = ()
    """Rows that are there from the start."""
    changeable: tuple[Changeable, ...] = ()
    """Settings of the learner that may change while the run goes."""
    servers: tuple[ServerSpec, ...] = ()
    """The roles that answer."""
    servers_apart: bool = False
    """Whether they live on the nodes of the actors, and not next to the run process."""
    shares_slots: bool = False
    """Whether actors wait for answers at each step, and so leave CPUs to others."""
    settable: tuple[Changeable, ...] = ()
    """Settings of the environments, and of the actor, that may change while the run goes."""
    learner: str = LEARNER
    """What the learner is called."""
    beside: tuple[Beside, ...] = ()
    """The other learners."""
    parts: dict[str, Part] = {}
    """By learner, which part of the rows that one learns from, if not all from all."""
    answers_travel: bool = False
    """Whether what servers here answer is recorded in the run's folder, which is elsewhere."""
    code: dict[str, str] = {}
    """Checksums of the user's files that building it imported, by name."""

    @property
    def learners(self) -> tuple[str, ...]:
        """The names of all learners, first the one whose weights actors act with."""
        return (self.learner, *(each.learner for each in self.beside))

    def of(self, learner: str) -> Plan:
        """The plan as this learner knows it: what it says of a learner is said of this one.

        Raises:
            KeyError: there is no such learner.
        """
        own = self
        if learner != self.learner:
            of = {each.learner: each for each in self.beside}[learner]
            own = msgspec.structs.replace(self, **msgspec.structs.asdict(of), beside=())
        if (part := self.parts.get(learner)) is None:
            return own
        return msgspec.structs.replace(
            own, data_keys=part.keys, envs=part.envs, state_keys=part.state_keys
        )

    def policy_of(self, role: str) -> str:
        """The policy whose agents' rows alone this role is handed; "" if it is handed all rows."""
        return role if role in self.parts else ""

    def rows_of(self, role: str) -> Plan:
        """The plan as this role knows it, if it is handed the rows of a policy; else all of it."""
        return self.of(role) if role in self.parts else self

    @property
    def agent_names(self) -> tuple[str, ...]:
        """The agents of its game, in the order of a game's rows, if it plays one."""
        names = (" ".join(name.split()) for name in (self.env_spec or {}).get("agent_names", ()))
        return tuple(name.replace(",", " ") for name in names)

    @property
    def read_learners(self) -> tuple[str, ...]:
        """The learners beside the first of which actors read something."""
        front, names = OTHER_VERSIONS, (key.name for key in self.data_keys)
        return tuple(name.removeprefix(front) for name in names if name.startswith(front))

    @property
    def sent_learners(self) -> tuple[str, ...]:
        """The learners whose weights are needed where actors are: by them, or by their servers."""
        answering = (each.of for each in self.servers if each.of)
        return tuple(dict.fromkeys((self.learner, *self.read_learners, *answering)))

    def object_name(self, name: str) -> str:
        """What an object is called in events: those of the first learner have short names."""
        return name.removeprefix(f"{self.learner}/")

    def weights_of(self, role: str, key: str = MODEL_PARAM) -> str:
        """What the weights of a learner are called in events, if no other ``key`` is asked for.

        Of who is no learner they are the first one's.
        """
        beside = key == MODEL_PARAM and role in self.learners[1:]
        return f"{role}/{MODEL_PARAM}" if beside else key

    def lag_setting(self, learner: str) -> str:
        """What ``artos set`` calls how many versions old the rows may be that a learner uses."""
        return MAX_LAG if learner == self.learner else f"{learner}.{MAX_LAG}"

    @property
    def every_object(self) -> dict[str, ObjectSpec]:
        """All objects that are published, by those names."""
        others = {f"{each.learner}/{o.name}": o for each in self.beside for o in each.objects}
        return {o.name: o for o in self.objects} | others

    @property
    def devices(self) -> dict[str, str]:
        """Where each learner computes, as ``device`` has it."""
        return {self.learner: self.device, **{each.learner: each.device for each in self.beside}}

    @property
    def replica_counts(self) -> dict[str, int]:
        """How many processes make each update of a learner together, by its name."""
        return {
            self.learner: self.replicas,
            **{each.learner: each.replicas for each in self.beside},
        }

    @property
    def replicas_setting(self) -> str:
        """The setting that gives the first learner its replicas, as a user writes it."""
        named = f"{self.learner}=" if self.beside or self.learner != LEARNER else ""
        return f"learners={named}{self.replicas}"

    def undivided(self) -> Plan:
        """The plan with one process for each learner."""
        beside = tuple(msgspec.structs.replace(each, replicas=1) for each in self.beside)
        return msgspec.structs.replace(self, replicas=1, beside=beside)

    @property
    def leases_device(self) -> bool:
        """Whether the learner leases a device for each update."""
        return self.device == POOL

    @property
    def keeps_rows(self) -> bool:
        """Whether rows are drawn, by whoever: they are of use for as long as they are there."""
        return self.draws_rows or not self.consumers

    @property
    def draws_rows(self) -> bool:
        """Whether a trigger draws rows of actors."""
        return any(draw.live for draw in self.draws)

    @property
    def at_work(self) -> Actors:
        """How many actors take part, and when."""
        return self.scaling or Manual(self.actors, self.actors)

    @property
    def members(self) -> Members:
        """The table of its roles."""
        evaluates = EVALUATION in self.triggers
        threads = {self.learner: self.threads}
        threads |= {each.learner: each.threads for each in self.beside}
        servers = {each.name: each.threads for each in self.servers}
        return Members.of_run(
            self.actors, learners=threads, evaluates=evaluates, servers=servers,
            servers_apart=self.servers_apart, replicas=self.replica_counts,
        )  # fmt: skip

    @property
    def evaluated(self) -> tuple[ObjectSpec, ...]:
        """What the evaluator is handed: the weights, with what actors read of other learners.

        The versions of these are arrays, too. Empty if nothing is evaluated.
        """
        if EVALUATION not in self.triggers:
            return ()
        arrays = list(self.objects[0].public)
        for name in self.read_learners:
            weights = self.of(name).objects[0].public
            arrays += [msgspec.structs.replace(a, name=read_as(a.name, name)) for a in weights]
            arrays.append(ArraySpec(OTHER_VERSIONS + name, (), "int64"))
        return (ObjectSpec(self.objects[0].name, tuple(arrays), 1, 2),)

    def checksums(self) -> dict[str, str]:
        """Checksums of the parts that what a member holds depends on, by name.

        Where rows are shipped from, and by which trigger, does not matter to them.
        """
        held_here = {target: how for target, how in self.triggers.items() if target != TRANSFER}
        plan = msgspec.structs.replace(self, triggers=held_here)
        return {
            name: xxh3_64_hexdigest(msgspec.json.encode(getattr(plan, name)))
            for name in (*_HELD_BY_MEMBERS, *(("data",) if self.data else ()))
        }

    def block(self, actor: int) -> BlockSpec:
        """The layout of one actor's data block."""
        return BlockSpec(
            actor, self.data_keys, self.capacity, self.envs, self.consumers, self.on_full
        )

    def requests(self) -> dict[str, RequestSpec]:
        """The layouts of the blocks of the servers here, by name."""
        if self.servers_apart:
            return {}
        return {each.name: RequestSpec(each, self.actors) for each in self.servers}

    def data_blocks(self) -> dict[str, BlockSpec]:
        """The layouts of the blocks of data sets, which are numbered after those of the actors."""
        return {
            each.name: BlockSpec(number, each.keys, each.rows, each.envs, (), "overwrite")
            for number, each in enumerate(self.data, self.actors)
        }


class Site(msgspec.Struct, frozen=True):
    """Where a process belongs: the folder of a run's shared memory, and which member it is."""

    folder: str
    member: Member
    members: Members
    logs: str = ""
    starts: int = 0
    """How often the member was started: replicas are all started as often."""

    @property
    def workload(self) -> str:
        """The run's name among all that share this machine: its own and a few letters more."""
        return Path(self.folder).name.removeprefix(PREFIX)

    def block_path(self, actor: int) -> Path:
        """File of an actor's data block."""
        return Path(self.folder) / f"actor-{actor}"

    def priorities_path(self, target: str) -> Path:
        """File of the priorities of the rows that are drawn for a target."""
        return Path(self.folder) / f"{PRIORITIES}{target}"

    def data_path(self, name: str) -> Path:
        """File of the block of a data set."""
        return Path(self.folder) / f"data-{name}"

    def requests_path(self, server: str) -> Path:
        """File of the requests to a server."""
        return Path(self.folder) / f"requests-{server}"

    @property
    def model_path(self) -> Path:
        """File of the model data block with the weights that actors act with."""
        return Path(self.folder) / "model"

    def model_of(self, learner: str) -> Path:
        """File of the model data block of a learner."""
        first = learner == self.members.publisher.role
        return self.model_path if first else Path(self.folder) / f"model-{learner}"

    @property
    def evaluated_path(self) -> Path:
        """File of the weights that are handed to the evaluator."""
        return Path(self.folder) / "evaluated"

    def gathering_of(self, learner: str) -> Path:
        """File of how far the replicas of a learner have come."""
        return Path(self.folder) / f"replicas-{learner}"

    def held_path(self, member: Member) -> Path:
        """File of what a member held when it ended, for the process that goes on from there."""
        return Path(self.folder) / f"held-{member.role}-{member.rank}"

    def branch_path(self, number: int) -> Path:
        """File to which the continuations of an actor's episode add what they find, a line each."""
        return Path(self.folder) / f"branch-{number}"

    @property
    def board_path(self) -> Path:
        """File of the node's board."""
        return Path(self.folder) / "board"
