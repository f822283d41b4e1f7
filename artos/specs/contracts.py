"""What ARTOS asks of an actor and of a learner: two base classes, and what a user's class lacks.

They load nothing, so any process may know them. Who wants PyTorch derives from ``RolloutActor`` and
``TorchLearner``, which have all of this.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from artos.errors import NotBranched
from artos.specs.bound import Bound

if TYPE_CHECKING:
    from artos.actors.context import ActorContext
    from artos.buffer.part_of_block import Part
    from artos.envs.spec import EnvSpec
    from artos.learners.context import LearnerContext
    from artos.learners.residency import Residency
    from artos.policies.acting import BoundPolicy, Declared, Seen
    from artos.protocol.invocations import Invoke
    from artos.runs.plan import Plan
    from artos.specs.configuration import Changeable
    from artos.specs.keys import DataKey, ObjectKey
    from artos.specs.servers import Server

_ON_CPU = ("auto", "cpu")


class Wrote(NamedTuple):
    """What ``sample`` may return in place of seconds: it wrote fewer ``rows`` than it might.

    ``seconds`` are those by kind. It has to be one row at least.
    """

    rows: int
    seconds: Mapping[str, float] = MappingProxyType({})


class Played(NamedTuple):
    """What came of an episode that was continued: raw rewards in all, steps, whether it ended."""

    total: float
    steps: int
    ended: bool = False


class Actor:
    """The sampling role: runs in an actor process, the only writer of its block of rows.

    Write ``data_keys``, ``setup``, ``bind`` and ``sample``; everything else has a default. To be
    evaluated, an actor also has an environment (``env``, ``spec``) and a policy
    (``build_module``, ``make_policy``).

    ``kept``, if a class has it, names the attributes that change while it samples: they are saved
    with ``checkpoint=all``.
    """

    envs: int = 1
    """Environments that it steps side by side; each row holds one value for every one of them."""
    env: str = ""
    """The environment's address; empty if it has none."""
    asked: str = ""
    """The address as it was given, where ``env`` was completed."""
    final_observations: bool = False
    """Set where rows are drawn from replay: an episode's last observation is to have a row."""
    stores_ages: bool = False
    """Set where whole episodes are handed over: rows are to have the data key ``ages``."""
    spec: EnvSpec | None = None
    """Facts about the environment."""
    declared: Declared | None = None
    """What the policy adds to a row."""
    version: int = -1
    """The version of the weights that ``bind`` was given last."""
    step_number: int = 0
    """The step being sampled, for reports of what went wrong in it."""
    begun: Sequence[int] = ()
    """The run's configuration in which each of the episodes last told began; empty: in that of the
    round."""
    agents_ended: Sequence[int] = ()
    """Which agent of its game each of them was of, by number; empty if it plays none."""
    jumps: Sequence[str] = ()
    """Methods whose rounds need not go on where the last one stopped, though no row says so."""
    policies: Sequence[str] = ()
    """The learners by whose policies its agents act, if these are several."""
    parts: Mapping[str, Part] = MappingProxyType({})
    """By learner, which part of its rows that one learns from; all learn from all if it is empty.
    """
    changeable: Sequence[Changeable] = ()
    """Numbers that ``artos set RUN env.NAME=VALUE`` may set while the run goes, beside those of its
    environment: ``call.settings`` has what was set."""
    reads: Sequence[str] = ()
    """Objects that it reads: the learner publishes them from its ``setup`` on."""
    history: int = 0
    """Past versions that are kept for it, weights and what it reads: ``bound.past(k)``."""
    every: int = 1
    """A past version is kept of each so many."""
    past_of: Sequence[str] = ()
    """Other learners of which it has past versions, too: ``bound.past(k, of)``. It reads their
    weights."""
    bound: Bound = Bound()
    """The version of ``bind``, with what it reads; set before ``bind`` is called."""
    acts_as_bound: bool = True
    """Whether it acts with the weights that ``bind`` is given, and not with others that it takes
    from elsewhere."""
    shares_slots: bool = False
    """Whether it waits for answers at each step, so that several of them may share a CPU."""
    servers: Mapping[str, Server] = MappingProxyType({})
    """By name those that it asks, unless the workload has others of these names."""

    def data_keys(self) -> Sequence[DataKey]:
        """The keys that it writes; may build an environment once to find out."""
        raise NotImplementedError

    def build_module(self, seed: int) -> Any:
        """The network whose weights are learned, from a seed; None if there is none."""
        return None

    def seat(self, learner: str) -> Actor:
        """What acts by the policy of this learner, where ``parts`` are of different policies."""
        return self

    def make_policy(self, module: Any, seed: int) -> BoundPolicy:
        """What an evaluation acts with, of ``build_module``'s network."""
        raise NotImplementedError

    def faults(self, module: Any) -> Iterable[str]:
        """Everything that is wrong with ``build_module``'s network."""
        return ()

    def seen(self, module: Any) -> Seen:
        """How the network takes observations, and what is odd about it."""
        from artos.policies.acting import Seen  # noqa: PLC0415  # this module loads nothing

        return Seen()

    def adopt(self, facts: Any) -> None:
        """Take the environment's facts, as plain data, from a plan instead of finding them out."""

    def prepare(self, plan: Plan, *, environments: bool = True) -> None:
        """Do early what is the same for every actor, in a process that will be cloned or forked.

        Without ``environments`` no thread and no open file may remain.
        """

    def setup(self, context: ActorContext) -> None:
        """Become an actor of the run, once in its process: ``context`` has its block and seed."""
        raise NotImplementedError

    def bind(self, params: Any, version: int) -> None:
        """Act with these weights, (N,) float32, from now on, and set ``version``.

        ``params`` may be a view into shared memory; they stay as they are until the next ``bind``.
        """
        raise NotImplementedError

    def sample(self, start: int, rows: int, call: Invoke) -> Mapping[str, float] | Wrote | None:
        """Write rows ``start`` to ``start + rows`` in place; returns seconds by kind, if any.

        All keys of each row have to be written, also ``policy_version``: the ``version`` that it
        was sampled with. Rows are not visible before this returns. Where all rows are handed over
        as whole episodes, a round may end earlier, after as many rows as ``Wrote`` says.
        """
        raise NotImplementedError

    def episodes(self) -> tuple[Sequence[float], Sequence[int]]:
        """Returns and lengths of the episodes that ended since the last call."""
        return (), ()

    def present(self, env: int) -> tuple[Mapping[str, Any], Played]:
        """What is seen of an environment now, by name, and its episode so far.

        Raises:
            NotBranched: its episodes cannot be continued.
        """
        raise NotBranched(
            f"{type(self).__name__} has no method present, nor play_on: derive it from "
            "RolloutActor, which has both"
        )

    def play_on(self, env: int, steps: int = 0, *, greedy: bool = False) -> Played:
        """Go on, and write no rows, until the episode of ``env`` ends or for so many ``steps``.

        0 is no limit; ``greedy`` acts for the best. Called in a copy of the actor only.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close what it holds open."""


class Learner:
    """The learning role: owns the weights, makes versions of them.

    Write ``setup``, ``live`` and ``update``; everything else has a default.
    """

    fresh: bool = False
    """Set it where something was learned: a version is published once the method returns."""
    non_publishing: ClassVar[tuple[str, ...]] = ()
    """Methods that only prepare an update: they publish nothing and count as no update."""
    objects: ClassVar[tuple[ObjectKey, ...] | ObjectKey] = ()
    """What it publishes in addition to the weights."""
    calls: ClassVar[tuple[str, ...]] = ()
    """Methods that the policy's network must have."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Data keys that rows must have."""
    changeable: ClassVar[tuple[Changeable, ...]] = ()
    """Numbers among its attributes that ``artos set`` may change while the run goes."""
    takes_episodes: ClassVar[bool] = True
    """Whether its methods can learn from whole episodes, as an ``EpisodeBatch`` has them."""
    replicable: ClassVar[bool] = False
    """Whether several processes can make its updates together, each from a part of the rows."""
    residency: Residency | None = None
    """Where its memory is while others have its device; None: it is never moved."""
    threads_follow: bool = False
    """Whether it has as many threads as others leave cores free."""

    def setup(self, context: LearnerContext) -> None:
        """Adopt ``context.module`` and make an optimiser; once in the learner's process."""
        raise NotImplementedError

    def live(self) -> Mapping[str, Any]:
        """Live arrays or tensors that make up a version: copied out to publish, in to resume.

        ``params`` (N,) float32 is what actors bind; names of all others begin with ``learner.``.
        """
        raise NotImplementedError

    def update(self, batch: Any, call: Invoke) -> Mapping[str, float] | None:
        """Learn from the rows that a trigger claimed or drew; returns metrics."""
        raise NotImplementedError

    def change(self, name: str, value: float) -> None:
        """Go on with another value of what ``changeable`` names; called between two invocations.

        A learner's process that is begun later is told so again. By default the attribute is set.
        """
        setattr(self, name, value)

    def version_published(self, version: int) -> None:
        """``live`` was published as this version: pass it on to who does not read it in the run.

        Called with the newest version, too, when a process goes on from it.
        """

    def layout(self) -> Sequence[tuple[str, tuple[int, ...]]]:
        """Names and shapes inside ``params``; empty for a vector without parts."""
        return ()

    def seconds(self) -> Mapping[str, float]:
        """Seconds of the last invocation by kind, as far as it kept count."""
        return {}

    def threads(self, module: Any, cores: int) -> int:
        """How many threads it computes with, of ``cores``."""
        return 1

    def faults(self, plan: Plan) -> Iterable[str]:
        """Everything that is wrong with its settings for this plan."""
        return ()

    def device_for(self, wanted: str, module: Any) -> str:
        """The name of the device to compute on, where the user ``wanted`` this one."""
        return "cpu"

    def device_faults(self, wanted: str) -> Iterable[str]:
        """Why it cannot have that device."""
        if wanted not in _ON_CPU:
            yield (
                f"device is {wanted!r}, but {type(self).__name__} computes on the CPU only: derive "
                "it from TorchLearner, or leave out the device"
            )

    def restored(self) -> None:
        """What ``live`` returns was filled with a version of another process."""

    def snapshot(self) -> Any:
        """Everything else that it holds, e.g. random streams, to be pickled; None for nothing."""
        return None

    def go_on(self, taken: Any) -> None:
        """Learn on from what ``snapshot`` returned in another process."""


_NEEDED: Mapping[type, tuple[str, ...]] = {
    Actor: ("data_keys", "setup", "bind"),
    Learner: ("setup", "live"),
}
_FIRED: Mapping[type, str] = {Actor: "sample", Learner: "update"}
"""The method that others which triggers fire are called like."""


def own(role: object, base: type, name: str) -> bool:
    """Whether a class, or an object, has something of its own in place of the base's default."""
    missing = object()
    found = inspect.getattr_static(role, name, missing)
    return found is not missing and found is not inspect.getattr_static(base, name, missing)


def broken(role: object, base: type[Actor | Learner], fired: Iterable[str]) -> Iterator[str]:
    """Everything that keeps a user's object from being an actor or a learner, by name.

    ``fired`` are the methods that the table of triggers names.
    """
    who, what = type(role).__name__, base.__name__
    if not isinstance(role, base):
        yield f"{who} is no {what}: write `class {who}({what})`, with `from artos import {what}`"
    like = _FIRED[base]
    if like in fired and not own(role, base, like):
        yield f"{who} has no {like}({_arguments(base, like)})"
    for name in _NEEDED[base]:
        if not own(role, base, name):
            yield f"{who} has no {name}({_arguments(base, name)})"
    public = (name for name in vars(base) if not name.startswith("_"))
    for name in dict.fromkeys((*public, *fired)):
        if own(role, base, name):
            yield from _unlike(role, base, name, like if name in fired else name)


def _arguments(base: type, name: str) -> str:
    return ", ".join(list(inspect.signature(getattr(base, name)).parameters)[1:])


def _unlike(role: object, base: type, name: str, like: str) -> Iterator[str]:
    """What is wrong with one member that a class has of its own."""
    who, wanted = f"{type(role).__name__}.{name}", inspect.getattr_static(base, like)
    found = inspect.getattr_static(role, name)
    method = callable(found) or isinstance(found, staticmethod | classmethod)
    if method != callable(wanted):
        yield f"{who} must be {'a method' if callable(wanted) else 'a value, not a method'}"
    elif method:
        given = [*inspect.signature(wanted).parameters.values()][1:]
        by_name = {each.name: None for each in given if each.kind is each.KEYWORD_ONLY}
        takes = inspect.signature(getattr(role, name))
        try:
            takes.bind(*[None] * (len(given) - len(by_name)), **by_name)
        except TypeError:
            names = ", ".join(takes.parameters)
            yield f"{who} must take ({_arguments(base, like)}), but it takes ({names})"


def methods(role: object) -> tuple[str, ...]:
    """What triggers can fire: all public methods of its class."""
    kind = type(role)
    return tuple(n for n in dir(kind) if not n.startswith("_") and callable(getattr(kind, n)))


def fired_method(role: Actor | Learner, name: str) -> Callable[..., Any]:
    """The method that a trigger's target names; registration has seen that it is there."""
    found: Callable[..., Any] = getattr(role, name)
    return found
