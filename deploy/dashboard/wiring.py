"""The table of triggers as a picture: who writes what, and what that lets happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import field

from artos.protocol.views import RunFacts
from artos.specs.keys import EPISODES, MODEL_PARAM, episodes_of
from artos.specs.members import ACTORS, LEARNER
from deploy.dashboard.reading import Reading
from head.records.shape import Shape
from triggers.journal_index import JournalIndex
from triggers.targets import Target, parsed

_TAIL = 128 << 10
"""Bytes at the end of a journal from which rates are."""
_ROWS, _CLOCK = "rows", "clock"
_WATCHED = {
    **dict.fromkeys(("DataKeyTrigger", "ReplayTrigger", "RoundTrigger", "TransferTrigger"), _ROWS),
    **dict.fromkeys(("TimeTrigger", "PrewarmTrigger"), _CLOCK),
    "RequestTrigger": ACTORS,
    "UpdateTrigger": "{}/" + MODEL_PARAM,
}
"""By our class what a trigger watches, {} being the first learner; others name it in a setting."""


class Node(msgspec.Struct, frozen=True):
    """A role, or what roles write: ``rows``, or an object with versions."""

    name: str
    kind: str
    """``role``, ``rows``, ``object`` or ``clock``."""
    said: str = ""
    """What is known of it now."""


class Edge(msgspec.Struct, frozen=True):
    """What fires a target of the table; without a ``target`` what a role writes or actors bind."""

    begin: str = field(name="from")
    end: str = field(name="to")
    target: str = ""
    trigger: str = ""
    """The class of the trigger."""
    settings: dict[str, Any] = {}
    """Those that are not empty."""
    per_second: float | None = None
    """How often it fired of late; of rows, how many environment steps actors make."""


class Wiring(msgspec.Struct, frozen=True):
    """A run's table of triggers."""

    nodes: list[Node]
    edges: list[Edge]


def wiring(shape: Shape, facts: RunFacts | None, rates: Mapping[str, float]) -> Wiring:
    """The picture of a table. Nothing of it is imported: triggers may be a user's own classes."""
    roles: dict[str, Node] = {}
    stores: dict[str, Node] = {}
    edges: list[Edge] = []
    learners = {parsed(t).role for t in shape.triggers if parsed(t).learns}
    beside = {each for each in learners if facts and f"{each}.updates" in facts.learners}
    guess = LEARNER if LEARNER in learners else min(learners - beside or learners, default=LEARNER)
    first = shape.learner or guess
    for target, spec in shape.triggers.items():
        to = parsed(target)
        roles[to.role] = Node(to.role, "role", _of_role(to.role, shape, facts, learners))
        fields = spec.get("fields")
        told = fields.items() if isinstance(fields, dict) else ()
        settings = {name: value for name, value in told if value not in (None, [], "", False)}
        name = str(spec.get("type", "")).rpartition(":")[2]
        for source in _sources(spec, to, first):
            if source == ACTORS:
                roles.setdefault(source, Node(source, "role", ""))
            else:
                kind = source if source in (_ROWS, _CLOCK) else "object"
                stores.setdefault(source, Node(source, kind, _of_store(source, facts, learners)))
            edges.append(Edge(source, to.role, target, name, settings, rates.get(target)))
        if to.samples:
            stores.setdefault(_ROWS, Node(_ROWS, _ROWS, _of_store(_ROWS, facts, learners)))
            speed = facts.steps_per_second if facts and to.role == ACTORS else None
            edges.append(Edge(to.role, _ROWS, per_second=speed))
    weights = f"{first}/{MODEL_PARAM}"
    fires = any((each.begin, each.end) == (weights, ACTORS) for each in edges)
    if {first, ACTORS} <= {*roles} and not fires:
        stores.setdefault(weights, Node(weights, "object", _of_store(weights, facts, learners)))
        edges.append(Edge(weights, ACTORS))  # bound with each round, whatever fires that
    for source, store in stores.items():
        owner = source.partition("/")[0]
        if store.kind == "object" and owner in roles:
            edges.append(Edge(owner, source))
    return Wiring([*roles.values(), *stores.values()], edges)


def rates(index: JournalIndex) -> dict[str, float]:
    """How often each target was fired per second, of late.

    Raises:
        JournalDamaged: a file of the journal cannot be read or unpacked.
    """
    fired: Counter[str] = Counter()
    times: list[float] = []
    for line in Reading(index).lines(index.size - _TAIL, index.size):
        if "t" in line:
            times.append(line["t"])
        fired.update([line["trigger"]] if "trigger" in line else [])
    seconds = max(times, default=0.0) - min(times, default=0.0)
    return {t: round(n / seconds, 3) for t, n in fired.items()} if seconds > 0 else {}


def _sources(spec: Mapping[str, Any], to: Target, first: str) -> Iterator[str]:
    """What a trigger watches: ours by their classes, a user's own by the names of its settings.

    Triggers may be composed of others.
    """
    found: dict[str, None] = {}
    rows = ACTORS if to.answers else _ROWS  # a server sees requests, and no rows

    def look(value: Any, name: str, *, guessing: bool) -> None:
        if isinstance(value, dict):
            home, _, kind = str(value.get("type", "")).rpartition(":")
            watched = _WATCHED.get(kind, "") if home.startswith("triggers.") else ""
            if watched:
                found[watched.format(first)] = None
            for inner, each in value.items():
                look(each, inner, guessing=not watched if kind else guessing)
        elif not (guessing and value):
            return
        elif name in ("keys", "size", "n", "rows", "ratio"):
            found[rows] = None
        elif isinstance(value, list):
            for each in value:
                look(each, name, guessing=True)
        elif name == "key" and isinstance(value, str):
            of_episodes = value == EPISODES or episodes_of(value)
            owner = f"{ACTORS if of_episodes else first}/"
            found[value if "/" in value else owner + value] = None
        elif name == "episodes":
            found[f"{ACTORS}/{EPISODES}"] = None
        elif name in ("t", "seconds"):
            found[_CLOCK] = None

    look(spec, "", guessing=True)
    yield from found or {_CLOCK: None}


def _of_role(role: str, shape: Shape, facts: RunFacts | None, learners: set[str]) -> str:
    if role == "actors":
        speed = f", {facts.steps_per_second:,.0f} steps/s" if facts else ""
        return f"{shape.actors} × {shape.envs} environments{speed}"
    updates = _number(role, "updates", facts, learners)
    return "" if updates is None else f"{updates:,.0f} updates"


def _of_store(source: str, facts: RunFacts | None, learners: set[str]) -> str:
    if facts is None:
        return ""
    if source == _ROWS:
        full = max(facts.fill.values(), default=0.0)
        return f"{facts.steps:,} steps, {full:.0%} full"
    version = _number(source.partition("/")[0], "version", facts, learners)
    return "" if version is None else f"version {version:,.0f}"


def _number(name: str, what: str, facts: RunFacts | None, learners: set[str]) -> float | None:
    """The ``updates`` or ``version`` of a learner; None if they are not known.

    Those of learners beside the first have their names; without, they are the first one's.
    """
    if facts is None or name not in learners:
        return None
    if (key := f"{name}.{what}") in facts.learners:
        return facts.learners[key]
    is_first = name == LEARNER or all(
        f"{each}.{what}" in facts.learners for each in learners - {name}
    )
    return float(getattr(facts, what)) if is_first else None
