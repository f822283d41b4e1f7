"""Members by name, and the table of roles that they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from types import MappingProxyType
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

LEARNER, ACTORS, EVALUATOR = "learner", "actors", "evaluator"
TEMPLATE, CONTROL = "template", "control"
SERVER = "server"
"""The kind of a role that answers, which has a name of its own."""
TRANSFER = "transfer"
"""The target without members: rows are shipped to the replay buffer."""
SET = "set"
"""The role of what ``artos set`` sets, which is named in place of a method: ``set.learner.lr``."""
ENV = "env"
"""Begins the names of settings of the environments: ``env.difficulty``."""
NOT_LEARNERS = (ACTORS, EVALUATOR, TEMPLATE, CONTROL, TRANSFER, SET, ENV)
"""Names that mean something else in tables and journals, so no learner can have them."""

NOT_ROLES = re.compile(r"run|missing|actor|[a-z]+-\d+")
"""Names that something else has in logs, so neither a learner nor a server can have them."""
ROLE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""What a learner or a server may be called."""
_ACTOR = re.compile(r"actor (\d{1,9})", re.ASCII)
_ONE = MappingProxyType({LEARNER: 1})
_NONE: Mapping[str, int] = MappingProxyType({})

_MAIL = 32 << 10
_MAIL_OF_MANY_CLAIMS = 256 << 10


class Member(NamedTuple):
    """A member of a run: one of those in a role, counted from 0.

    As text it is what journals, logs and status have: ``learner``, ``evaluator``, ``actor 3``; a
    second learner would be ``learner 1``.
    """

    role: Annotated[str, Meta(pattern=rf"\A{ROLE_NAME.pattern}\Z")]
    rank: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0

    def __str__(self) -> str:
        if self.role == ACTORS:  # the only role whose name is a plural
            return f"actor {self.rank}"
        return f"{self.role} {self.rank}" if self.rank else self.role


def actor_of(member: str) -> int | None:
    """The number of the actor whose text this is; None of other members."""
    found = _ACTOR.fullmatch(member)
    return int(found[1]) if found else None


def in_order(members: Iterable[str]) -> list[str]:
    """Members as people list them: learners and others by name, then actors by number."""

    def place(member: str) -> tuple[int, str]:
        actor = actor_of(member)
        return (0, member) if actor is None else (1 + actor, "")

    return sorted(members, key=place)


class Role(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row of the table: what is asked about the members of a role, wherever it is asked."""

    name: str
    count: int = 1
    """Number of members."""
    kind: str = ""
    """Which process serves a member, e.g. ``LEARNER``, whatever the role is called."""
    mail: int = _MAIL
    """Bytes of records that each of the two mailboxes of a member holds."""
    idle: str = "an invocation"
    """What a member waits for while it has nothing to answer; ``{version}`` is the next one."""
    publishes: bool = False
    """Its answers publish versions of weights, in a model block of its own."""
    samples: bool = False
    """Each member writes rows to a block of its own, and holds a version of the weights."""
    waits: bool = False
    """An invocation may have to wait for what the member reports (``Waits``), such as a device."""
    trains: bool = False
    """A run has not finished training while a member has an invocation to answer."""
    hosted: bool = False
    """Its members live next to the run process, wherever those that sample live."""
    threads: int = 1
    """Compute threads of a member that is hosted."""


class Members(msgspec.Struct, frozen=True, dict=True):
    """The table of a run's roles. Its members have numbers: their places on the board of a node.

    No number leaves its node: everywhere else a member is a ``Member``.
    """

    roles: tuple[Role, ...]

    @classmethod
    def of_run(
        cls, actors: int, *, learners: Mapping[str, int] = _ONE, evaluates: bool = False,
        servers: Mapping[str, int] = _NONE, servers_apart: bool = False,
        replicas: Mapping[str, int] = _NONE,
    ) -> Members:  # fmt: skip
        """The ``learners`` with their threads, actors, the evaluator if there is one, and guests.

        Of each learner there are so many ``replicas``, or one. Then come the ``servers``, with
        their threads, too; if actors live on other nodes, these are ``servers_apart`` from the run
        process. Guests are the template that actors are cloned from, and the process that changes a
        run from outside (``artos scale``).
        """
        learning = (
            Role(
                name, replicas.get(name, 1), LEARNER, mail=_MAIL_OF_MANY_CLAIMS, idle="rows",
                publishes=True, waits=True, trains=True, hosted=True, threads=threads,
            )
            for name, threads in learners.items()
        )  # fmt: skip
        sampling = Role(ACTORS, actors, ACTORS, idle="version {version}", samples=True, trains=True)
        evaluator = Role(EVALUATOR, kind=EVALUATOR, idle="a version to evaluate", hosted=True)
        guests = Role(TEMPLATE), Role(CONTROL)
        answering = [
            Role(name, kind=SERVER, idle="requests", hosted=not servers_apart, threads=threads)
            for name, threads in servers.items()
        ]
        # What is started first stands first: a learner takes longest to be ready.
        others = (*((evaluator,) if evaluates else ()), *answering)
        return cls((*learning, sampling, *guests, *others))

    @cached_property
    def _rows(self) -> dict[str, tuple[int, Role]]:
        """Each role by name, and the number of its first member."""
        firsts = accumulate((role.count for role in self.roles), initial=0)
        return {role.name: (first, role) for first, role in zip(firsts, self.roles, strict=False)}

    @cached_property
    def _everyone(self) -> tuple[Member, ...]:
        return tuple(member for role in self.roles for member in self.of(role.name))

    def __len__(self) -> int:
        return sum(role.count for role in self.roles)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._everyone)

    def __contains__(self, member: Member) -> bool:
        return member.rank in self.ranks(member.role)

    def number(self, member: Member) -> int:
        """The member's place on a board.

        Raises:
            KeyError: there is no such member.
        """
        first, role = self._rows[member.role]
        if not 0 <= member.rank < role.count:
            raise KeyError(member)
        return first + member.rank

    def member(self, number: int) -> Member:
        """The member at a place on a board."""
        return self._everyone[number]

    def role(self, member: Member) -> Role:
        """The row of a member's role.

        Raises:
            KeyError: there is no such role.
        """
        return self._rows[member.role][1]

    def ranks(self, role: str) -> range:
        """The ranks in a role; none if there is no such role."""
        return range(self._rows[role][1].count if role in self._rows else 0)

    def of(self, role: str) -> tuple[Member, ...]:
        """The members in a role, by rank; none if there is no such role."""
        return tuple(Member(role, rank) for rank in self.ranks(role))

    @cached_property
    def publisher(self) -> Member:
        """The member that publishes the weights that actors act with: the first learner."""
        return self.publishers[0]

    @cached_property
    def publishers(self) -> tuple[Member, ...]:
        """The members that publish versions, one of each role that does."""
        return tuple(Member(role.name) for role in self.roles if role.publishes)

    def together(self, member: Member) -> tuple[Member, ...]:
        """The replicas that a member is one of: they make its calls together; or itself alone.

        The first of them is the one that is asked, answers and publishes for all.
        """
        return self.of(member.role) if self.role(member).publishes else (member,)

    def follows(self, member: Member) -> bool:
        """Whether it is a replica other than the first one."""
        return member != self.together(member)[0]

    @cached_property
    def servers(self) -> tuple[Member, ...]:
        """The members that answer actors; where actors live apart there is one on each node."""
        return tuple(member for member in self._everyone if self.role(member).kind == SERVER)

    @cached_property
    def hosted(self) -> tuple[Member, ...]:
        """Members that live next to the run process, in the order in which they are started."""
        return tuple(member for member in self._everyone if self.role(member).hosted)
