"""Settings of the algorithms that are built in: each is declared once, in a field of a struct.

A field has the setting's name, its type, its words, its range and its default. The command line,
``artos explain``, ``config.json``, the checks and the learner all read it. Groups that algorithms
share are structs that theirs inherit from; what differs only in its default is a type here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    get_args,
    get_type_hints,
)

import msgspec

from artos.learners import ranges
from artos.learners.compiler import Switch
from artos.specs.actor_count import ActorsSetting
from artos.specs.settings import shown
from artos.specs.workload import Workload
from artos.system.closest import closest
from artos.transport.weights.channel import Kind, Way

if TYPE_CHECKING:
    from artos.envs.spec import EnvSpec

P = ParamSpec("P")
S = TypeVar("S", bound=msgspec.Struct)
_CHOICES = ("usual", "continuous", "images")
OPEN: Any = None
"""The default of a setting that depends on the environment; users write ``none``."""


def table(words: str, **more: Any) -> msgspec.Meta:
    """A setting that the workload's function reads: of environments, actors, policy or triggers.

    ``more`` is as in ``learner``.
    """
    return _meta("table", words, more)


def learner(words: str, **more: Any) -> msgspec.Meta:
    """A setting that the learner reads; ``words`` say what it does.

    ``gt``, ``ge`` and ``le`` are its range. Numbers are finite, except that with ``unbounded=True``
    infinity stands for no bound. A setting that is ``OPEN`` until the environment is known becomes
    what is ``usual``, but that of ``images`` where an observation has more than one axis, and else
    that of ``continuous`` where actions are continuous. A text there says what is computed instead.
    One that is ``of="NAME"`` or ``of="NAME=VALUE"`` is of use only where that setting is true or
    given, or has that value, and with ``"not NAME"`` where it is not.
    """
    return _meta("learner", words, more)


def _meta(reader: str, words: str, more: dict[str, Any]) -> msgspec.Meta:
    choices = {name: more.pop(name) for name in _CHOICES if name in more}
    unbounded, of = more.pop("unbounded", False), more.pop("of", "")
    if choices:
        marks = ("", " *", " on images")
        each = (
            f"{shown(choices[name])}{mark}"
            for name, mark in zip(_CHOICES, marks, strict=True)
            if name in choices
        )
        words = f"{words}; none: {', '.join(each)}"
    if of:
        words = f"{words} ({of})"
    extra = {"reader": reader, "choices": choices, "unbounded": unbounded, "of": of}
    return msgspec.Meta(description=words, extra=extra, **more)


class Declared(NamedTuple):
    """A field of a struct of settings: its type, its words and range, who reads it, its choices."""

    kind: Any
    meta: msgspec.Meta
    reader: Literal["learner", "table"]
    choices: Mapping[str, Any]
    unbounded: bool
    of: str


@functools.cache
def declared(kind: type[msgspec.Struct]) -> Mapping[str, Declared]:
    """The settings of a struct, by name."""
    hints = get_type_hints(kind, include_extras=True)
    found = {}
    for name in kind.__struct_fields__:
        of, meta = get_args(hints[name])
        found[name] = Declared(of | None if meta.extra["choices"] else of, meta, **meta.extra)
    return found


def builder(
    settings: Callable[P, S],
) -> Callable[[Callable[[S], Workload]], Callable[P, Workload]]:
    """Have a function of a struct of settings take its fields as arguments, by name.

    So what users call, and what ``--set`` changes, looks like any function that builds a workload.
    """
    kind: Any = settings

    def decorated(build: Callable[[S], Workload]) -> Callable[P, Workload]:
        @functools.wraps(build)
        def built(*given: P.args, **named: P.kwargs) -> Workload:
            chosen = settings(*given, **named)
            made = build(chosen)
            return replace(made, doubts=(*_of_no_use(chosen), *made.doubts))

        ours: Any = built
        hints = {name: Annotated[each.kind, each.meta] for name, each in declared(kind).items()}
        ours.__annotations__ = {**hints, "return": build.__annotations__["return"]}
        ours.__signature__ = inspect.signature(kind)
        return built

    return decorated


def _of_no_use(settings: msgspec.Struct) -> Iterator[str]:
    """Which settings are not as they are by default, and of use only beside others."""
    usual = inspect.signature(type(settings)).parameters
    for name, each in declared(type(settings)).items():
        value = getattr(settings, name)
        if not each.of or value == usual[name].default:
            continue
        other, _, wanted = each.of.removeprefix("not ").partition("=")
        given = getattr(settings, other)
        if each.of.startswith("not "):
            if given:
                yield f"{name}={shown(value)} has no effect with {other}: leave one of them out"
        elif shown(given) != wanted if wanted else not given:
            how = wanted or ("true" if given is False else "...")
            yield f"{name}={shown(value)} has no effect: add {other}={how}, or leave it out"


# -- what a struct of settings is asked ------------------------------------------------------------


def settings_of_learner(kind: type[S], given: Mapping[str, Any]) -> S:
    """The settings of a learner that is made by hand, with what is usual where none is given.

    Raises:
        TypeError: the learner has no such setting.
    """
    known = {name for name, each in declared(kind).items() if each.reader == "learner"}
    for name in given.keys() - known:
        there = name in declared(kind)
        why = ": the workload's function takes it" if there else closest(name, sorted(known))
        raise TypeError(f"{kind.__name__.removesuffix('Settings')} has no setting {name!r}{why}")
    return fitted(kind(**given), None)


def fitted(settings: S, spec: EnvSpec | None) -> S:
    """With what was left open chosen by what the environment shows and takes.

    What the algorithm computes itself stays None. Without ``spec`` it is what is usual.
    """
    chosen: dict[str, Any] = {}
    kind = "usual"
    if spec is not None and shows_images(spec):
        kind = "images"
    elif spec is not None and spec.actions.kind == "box":
        kind = "continuous"
    for name, each in declared(type(settings)).items():
        if each.choices and getattr(settings, name) is None:
            value = each.choices.get(kind, each.choices["usual"])
            chosen[name] = None if isinstance(value, str) else value
    return msgspec.structs.replace(settings, **chosen)


def shows_images(spec: EnvSpec) -> bool:
    """Whether any part of an observation has more than one axis."""
    return any(len(part.shape) > 1 for part in spec.parts)


def left_open(settings: msgspec.Struct) -> dict[str, Any]:
    """The settings whose default depends on the environment, with their values."""
    there = declared(type(settings))
    return {name: getattr(settings, name) for name, each in there.items() if each.choices}


def out_of_range(settings: msgspec.Struct) -> Iterator[str]:
    """Which settings no run could use, and why."""
    for name, each in declared(type(settings)).items():
        value = getattr(settings, name)
        optional = type(None) in get_args(each.kind) and not each.choices
        if value is not None or not optional:
            yield from ranges.faults(name, value, each.meta, each.unbounded, optional)


# -- types that several algorithms have with different defaults ------------------------------------

_CENTRAL, _PRIORITISED = "inference=central", "replay=prioritised"
Env = Annotated[str, table("a Gymnasium id, or your own module:factory")]
Actors = Annotated[ActorsSetting, table("how many processes sample, and when that changes")]
TotalSteps = Annotated[int, table("environment steps in all")]
Envs = Annotated[int, table("environments an actor steps side by side")]
Steps = Annotated[int, table("steps of each environment in a round")]
ClipRewards = Annotated[bool | None, table("clip rewards to -1 ... 1; none: on Atari")]
TerminalLives = Annotated[bool, table("a lost life ends the learner's episode (Atari)")]
Agents = Annotated[
    Literal["shared", "separate"],
    table("whether agents of a game share a policy or have their own"),
]
Inference = Annotated[
    Literal["actor", "central"],
    table("who evaluates the policy: each actor by itself, or one server for all"),
]
Splits = Annotated[
    int, table("parts of an actor's environments: one steps, others are answered", of=_CENTRAL)
]
AnswerBatch = Annotated[
    int, table("requests that a server answers together, if so many come", of=_CENTRAL)
]
AnswerDevice = Annotated[str, table("where a server computes: cpu, cuda:N or pool", of=_CENTRAL)]
AnswerWait = Annotated[float, table("seconds that a server waits for so many", of=_CENTRAL)]
Hidden = Annotated[tuple[int, ...], table("units of the hidden layers")]
Lambda = Annotated[float, learner("lambda of GAE or V-trace; 1: n-step returns", ge=0, le=1)]
EntropyBonus = Annotated[float, learner("weight of the entropy bonus", ge=0)]
LongestGradient = Annotated[float | None, learner("longest gradient; none: no limit")]
Threads = Annotated[int, learner("threads of the learner; 0: one, or all free for large networks")]
Replay = Literal["uniform", "prioritised"]
ReplaySize = Annotated[int, table("transitions that are kept")]
BatchSize = Annotated[int, table("transitions in an update")]
Alpha = Annotated[float, table("how far priorities count, 0 to 1", of=_PRIORITISED)]
Beta = Annotated[float, table("how far weights make up for that, 0 to 1", of=_PRIORITISED)]
NStep = Annotated[int, table("rewards summed before bootstrapping")]
TargetShare = Annotated[float, learner("share of the way that targets go at once", gt=0, le=1)]
Compiled = Annotated[Switch, learner("compile the update; worth it on GPUs")]
Bfloat16 = Annotated[bool, learner("run the learner's networks in bfloat16")]


# -- groups ----------------------------------------------------------------------------------------


class ActorSettings(msgspec.Struct, frozen=True):
    """What every workload of ours has; these may be given by position."""

    env: Env = "CartPole-v1"
    actors: Actors = 2
    total_steps: TotalSteps = 500_000


class AskingSettings(ActorSettings, kw_only=True, frozen=True):
    """Of algorithms whose policy one server may evaluate for all actors."""

    inference: Inference = "actor"
    splits: Splits = 1
    answer_batch: AnswerBatch = 1
    answer_wait: AnswerWait = 0.0
    answer_device: AnswerDevice = "cpu"


class WaySettings(ActorSettings, kw_only=True, frozen=True):
    """Of algorithms whose weights may go to actors in more than one way."""

    weights: Annotated[Kind, learner("their way: run's memory, files, http to a server")] = "block"
    weights_folder: Annotated[
        str | None, learner("where all machines find versions (files, http)")
    ] = None
    server: Annotated[str | None, learner("who acts, as http://HOST:PORT (http)")] = None
    served_model: Annotated[str, learner("what the server calls the model", of="weights=http")] = (
        "artos"
    )

    @property
    def way(self) -> Way:
        """The way that versions of the weights take to actors."""
        folder, server = self.weights_folder or "", self.server or ""
        return Way(self.weights, folder, server, self.served_model)


class ActorCriticSettings(AskingSettings, kw_only=True, frozen=True):
    """Of algorithms that learn a policy and its value."""

    envs: Envs = 4
    clip_rewards: ClipRewards = None
    terminal_lives: TerminalLives = False
    agents: Agents = "shared"
    hidden: Hidden = (64, 64)
    recurrent: Annotated[bool, table("give the policy a memory of its episode (a GRU)")] = False
    memory: Annotated[int, table("units of that memory", of="recurrent")] = 64
    normalize: Annotated[bool, table("scale observations and rewards by running statistics")] = (
        False
    )
    normalize_rewards: Annotated[
        bool | None, learner("scale rewards alone, or not; none: as normalize says")
    ] = None
    lr: Annotated[float, learner("step size", usual=1e-3, images=2.5e-4)] = OPEN
    anneal: Annotated[bool, learner("lower lr to 0 over the run")] = False
    gamma: Annotated[float, learner("discount of later rewards, 0 to 1", ge=0, le=1)] = 0.99
    lam: Lambda = 0.95
    vf_coef: Annotated[float, learner("weight of the value loss, half a square", ge=0)] = 0.5
    ent_coef: EntropyBonus = 0.0
    max_grad_norm: LongestGradient = 0.5
    bfloat16: Bfloat16 = False
    threads: Threads = 0
    compile: Compiled = "off"

    @property
    def scales_rewards(self) -> bool:
        """Whether rewards are divided by the deviation of returns so far."""
        return self.normalize if self.normalize_rewards is None else self.normalize_rewards


class ClippedSettings(ActorCriticSettings, kw_only=True, frozen=True):
    """Of algorithms that step with PPO's clipped loss."""

    lr: Annotated[float, learner("step size", usual=1e-3, continuous=3e-4, images=2.5e-4)] = OPEN
    anneal: Annotated[bool, learner("lower lr to 0 over the run", usual=True, continuous=False)] = (
        OPEN
    )
    epochs: Annotated[int, learner("passes over each batch", gt=0, usual=4, continuous=10)] = OPEN
    minibatches: Annotated[
        int, learner("steps of Adam in a pass", gt=0, usual=4, continuous="rows / 64")
    ] = OPEN
    clip: Annotated[
        float, learner("bound of the ratio", gt=0, unbounded=True, usual=0.2, images=0.1)
    ] = OPEN
    value_clip: Annotated[
        float | None, learner("bound of a value's change; none: no bound", gt=0, unbounded=True)
    ] = None
    ent_coef: Annotated[
        float, learner("weight of the entropy bonus", ge=0, usual=0.01, continuous=0.0)
    ] = OPEN
    normalize_advantages: Annotated[bool, learner("mean 0 and variance 1 in each batch")] = True
    target_kl: Annotated[
        float | None, learner("divergence that ends an update; none: never", gt=0, unbounded=True)
    ] = None


class ReplayStart(AskingSettings, frozen=True):
    """By position, of algorithms that learn from replay."""

    actors: Actors = 1
    total_steps: TotalSteps = 50_000


class ReplaySettings(ReplayStart, kw_only=True, frozen=True):
    """Of algorithms that learn from replay."""

    envs: Envs = 4
    steps: Steps = 8
    agents: Agents = "shared"
    normalize: Annotated[bool, table("scale observations by running statistics")] = False
    replay: Annotated[Replay, table("how transitions are drawn")] = "uniform"
    replay_size: ReplaySize = 100_000
    alpha: Alpha = 0.6
    batch: BatchSize = 64
    after: Annotated[int, table("transitions before the first update")] = 1_000
    n_step: NStep = 3
    her: Annotated[float, table("share of goals replaced by some reached later", ge=0, le=1)] = 0.0
    gamma: Annotated[float, table("discount of later rewards, 0 to 1")] = 0.99
    lr: Annotated[float, learner("step size of the policy")] = 1e-3
    sync: Annotated[int, learner("updates between versions", ge=1)] = 8
    bfloat16: Bfloat16 = False
    threads: Threads = 0
    compile: Compiled = "off"


class CriticsStart(ReplaySettings, frozen=True):
    """By position, of algorithms with critics of state and action."""

    env: Env = "Pendulum-v1"
    total_steps: TotalSteps = 20_000


class CriticsSettings(CriticsStart, kw_only=True, frozen=True):
    """Of algorithms with critics of state and action.

    The transitions before the first update are random.
    """

    envs: Envs = 1
    hidden: Annotated[tuple[int, ...], learner("units of the hidden layers")] = (256, 256)
    replay_size: Annotated[
        int | None, table("transitions that are kept; none: total_steps, at most 1,000,000")
    ] = None  # type: ignore[assignment]  # by default it depends on another setting
    batch: BatchSize = 256
    ratio: Annotated[float | None, table("how often each transition is drawn; none: batch")] = None
    n_step: NStep = 1
