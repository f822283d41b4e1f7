"""The contract of scaling policies, and a user's own policy as plain data."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from artos.errors import Refused


class Observation(msgspec.Struct, frozen=True):
    """What a policy knows when the round of an update begins."""

    update: int
    """The number of the update, from 0."""
    actors: int
    """The number of actors that was decided last."""
    rows: int
    """How many rows one actor adds to a batch."""
    metrics: Mapping[str, float] = {}
    """From the learner's last update."""
    mean_return: float | None = None
    """Over the last 100 episodes; None before any has ended."""
    objects: Mapping[str, Any] = {}
    """The newest values of what the learner publishes besides the weights.

    Numbers, or arrays if they have a shape.
    """


class ScalingPolicy:
    """Decides how many actors take part, from ``least`` to ``most``. Subclass it as a dataclass::

        @dataclass
        class MoreOnceGood(ScalingPolicy):
            least: int = 2
            most: int = 8
            goal: float = 200.0

            def decide(self, seen: Observation, memory: dict[str, Any]) -> int:
                if (seen.mean_return or 0.0) >= self.goal:
                    memory["good"] = True
                return self.most if "good" in memory else self.least

    and give it to a workload: ``actors=MoreOnceGood()``. Like a trigger it runs in the supervisor
    and is pure: no sockets, clocks or processes inside, and arguments that are plain data.
    """

    objects: ClassVar[tuple[str, ...]] = ()
    """The learner's objects that it reads; the learner must publish them."""
    least: int
    most: int

    @property
    def first(self) -> int:
        """The number at the start."""
        return self.least

    def numbers(self) -> tuple[int, ...]:
        """Every number of actors there may be, in rising order."""
        return tuple(range(self.least, self.most + 1))

    def decide(self, seen: Observation, memory: dict[str, Any]) -> int:
        """The number from this round on; asked once for each update.

        ``memory`` is the policy's own, empty at first: numbers, text, lists and dicts. It is saved
        with each checkpoint, and ``--resume`` restores it unless ``actors=`` was changed. An answer
        that is not one of ``numbers()`` counts as the next smaller one.
        """
        raise NotImplementedError

    def words(self) -> str:
        """What changes the number, for people."""
        return f"{self.least} to {self.most} actors as {type(self).__name__} decides"

    def faults(self) -> list[str]:
        """Everything wrong with it."""
        return range_faults(type(self).__name__, self.least, self.most)


class Custom(msgspec.Struct, frozen=True, tag="own"):
    """A user's policy as plain data: its class, its arguments, and what its methods returned."""

    source: str
    """``file.py:Class``."""
    fields: dict[str, Any]
    """Its arguments."""
    first: int
    choices: tuple[int, ...]
    """Its ``numbers()``."""
    text: str
    """Its ``words()``."""
    objects: tuple[str, ...] = ()

    @classmethod
    def of(cls, policy: ScalingPolicy) -> Custom:
        """A policy as plain data, once it has decided for the first time without a fault.

        Raises:
            Refused: it is not plain data, or cannot decide; lists all faults.
        """
        found = [*_class_faults(policy)] or [*policy.faults()]
        if not found:
            numbers = policy.numbers()
            if not numbers or numbers != tuple(sorted(set(numbers))) or numbers[0] < 1:
                found.append(
                    f"numbers() must be a tuple of rising numbers from 1 on, not {numbers!r}"
                )
            elif policy.first not in numbers:
                found.append(f"first is {policy.first!r}, which is none of its numbers()")
            else:
                try:  # the first question that a run asks, too
                    decided(policy, Observation(0, policy.first, 1), {})
                except Exception as error:
                    found.append(f"decide raised {type(error).__name__}: {error}")
        if found:
            raise Refused([f"actors={type(policy).__name__}(…): {fault}" for fault in found])
        source = f"{inspect.getfile(type(policy))}:{type(policy).__name__}"
        fields = msgspec.json.decode(msgspec.json.encode(_arguments(policy)))
        objects = tuple(policy.objects)
        return cls(source, fields, policy.first, policy.numbers(), policy.words(), objects)

    def policy(self, load: Callable[[str], Any]) -> ScalingPolicy:
        """The policy itself; ``load`` imports its class.

        Raises:
            Refused: the class is not a policy, or cannot be built from these arguments.
        """
        kind = load(self.source)
        # JSON only has lists; as for triggers, arguments come back as tuples.
        fields = {n: tuple(v) if isinstance(v, list) else v for n, v in self.fields.items()}
        try:
            made = kind(**fields)
        except Exception as error:
            raise Refused([f"{self.source} cannot be built again: {error}"]) from error
        if not isinstance(made, ScalingPolicy):
            raise Refused([f"{self.source} is not a ScalingPolicy"])
        return made

    @property
    def least(self) -> int:
        """The smallest number."""
        return self.choices[0]

    @property
    def most(self) -> int:
        """The largest number, which is how many are registered."""
        return self.choices[-1]

    def numbers(self) -> tuple[int, ...]:
        """Every number of actors there may be."""
        return self.choices

    def words(self) -> str:
        """What changes the number, for people."""
        return self.text

    def faults(self) -> list[str]:
        """None: ``of`` has refused a policy that has any."""
        return []


def decided(policy: ScalingPolicy, seen: Observation, memory: dict[str, Any]) -> int:
    """The policy's answer, as one of its numbers.

    Raises:
        TypeError: the answer is not a whole number, or the memory is not plain data.
        Exception: any that the user's code raised.
    """
    answer = policy.decide(seen, memory)
    if not isinstance(answer, int) or isinstance(answer, bool):
        raise TypeError(f"decide must return a whole number of actors, not {answer!r}")
    if fault := _not_plain(memory):
        raise TypeError(f"memory must hold plain data: {fault}")
    numbers = policy.numbers()
    return max((number for number in numbers if number <= answer), default=numbers[0])


def range_faults(name: str, least: int, most: int) -> list[str]:
    """What is wrong with bounds."""
    found = []
    if least < 1:
        found.append(f"{name}: there must be at least 1 actor, not {least}")
    if most < least:
        found.append(f"{name}: {least}..{most} holds no number; write the smaller one first")
    return found


# -- checks ----------------------------------------------------------------------------------------


def _class_faults(policy: ScalingPolicy) -> Iterator[str]:
    kind = type(policy)
    if not dataclasses.is_dataclass(policy):
        yield f"put @dataclass above class {kind.__name__}: a scaling policy is a dataclass"
    elif fault := _not_plain(_arguments(policy)):
        yield f"its arguments must be plain data: {fault}"
    if "." in kind.__qualname__:
        yield f"write class {kind.__name__} at the top level of its file, to be importable"
    if kind.decide is ScalingPolicy.decide:
        yield f"write decide(self, seen, memory) in class {kind.__name__}"
    for name in ("least", "most"):
        if type(getattr(policy, name, None)) is not int:
            yield f"{name} must be a whole number"


def _arguments(policy: Any) -> dict[str, Any]:
    return {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy) if f.init}


def _not_plain(data: dict[str, Any]) -> str:
    """Why data would not be the same when it is read from a file again; empty if it would."""
    try:
        same = msgspec.json.decode(msgspec.json.encode(data)) == _listed(data)
    except (TypeError, ValueError) as error:
        return str(error)
    return "" if same else f"{data!r} would not come back from a file as it is"


def _listed(data: Any) -> Any:
    """The same with lists instead of tuples."""
    if isinstance(data, list | tuple):
        return [*map(_listed, data)]
    return {key: _listed(v) for key, v in data.items()} if isinstance(data, dict) else data
