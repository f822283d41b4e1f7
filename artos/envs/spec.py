"""One environment as plain data: what it shows, what it accepts, which data keys it fills."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

import gymnasium as gym
import msgspec
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from artos.envs import action_words
from artos.envs.shown import Path
from artos.errors import Refused
from artos.specs.configuration import Changeable
from artos.specs.fields import Number
from artos.specs.keys import (
    AGES_KEY,
    CONFIGURATION_KEY,
    MASK_KEY,
    OBSERVATIONS,
    VALID_KEY,
    DataKey,
    Padding,
)

ActionKind = Literal["discrete", "multidiscrete", "box"]

CHOSEN = "autoreset_chosen"
"""In the metadata of environments that we make: we decide when they are reset."""

ATARI = "atari"
"""In the metadata of environments that are Atari games, whose rewards are clipped by default."""

AGENTS, NAMES = "agents", "agent_names"
"""In the metadata of games: how many rows each has, and which agents these are of."""

ABSENT = "absent"
"""In the info of a game's reset: which rows, (E,), are of agents that are not there yet."""

COMPONENTS = "components"
"""In the metadata of environments that pay several rewards: what these are called.

In the info of a step, these rewards by themselves, (E, k). In an address, names and weights.
"""

STACK, PADDING = "frame_stack", "frame_padding"
"""In the metadata of environments whose observations are stacks of frames."""

AGES = DataKey(AGES_KEY, (), "uint8")

MASK = "action_mask"
"""Where environments say which actions may be chosen: in a Dict observation, or in ``info``."""


STORABLE = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
"""Spaces of numbers in arrays of a fixed shape."""


Size = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
"""Elements along one axis, or choices."""


def _check_dtype(name: str) -> None:
    if np.dtype(name).kind not in "biuf":
        raise TypeError(f"dtype {name!r} is none of numbers")


def _check_each(
    name: str, values: tuple[object, ...], shape: tuple[int, ...], *, needed: bool = False
) -> None:
    """Make sure that there is one value for each element, or none, if none is ``needed``."""
    if len(values) != math.prod(shape) and (needed or values):
        raise ValueError(f"{name} has {len(values)} values for the shape {shape}")


class Part(msgspec.Struct, frozen=True):
    """One array of an observation."""

    name: str
    """Its data key, the same name everywhere."""
    shape: tuple[Size, ...]
    """Of what is stored per step."""
    dtype: str
    stack: Size = 1
    """With k > 1 the policy sees ``(k, *shape)``: the last k frames, the oldest first."""
    sizes: tuple[Size, ...] = ()
    """For categories: one count per element, which is in ``0 … size-1``."""
    low: float | None = None
    """The lower bound of all elements; None if it is unknown."""
    high: float | None = None
    """The upper bound of all elements; None if it is unknown."""
    padding: Padding = "zero"
    """What a stack holds in place of frames from before the episode began."""
    start: tuple[Number, ...] = ()
    """What is added to categories, per element, to give the environment's own numbers.

    Empty if all are 0.
    """

    def __post_init__(self) -> None:
        _check_dtype(self.dtype)
        _check_each("sizes", self.sizes, self.shape)
        _check_each("start", self.start, self.shape)

    @property
    def value_shape(self) -> tuple[int, ...]:
        """Shape of the value that a policy sees for one environment."""
        return (self.stack, *self.shape) if self.stack > 1 else self.shape


class ActionSpec(msgspec.Struct, frozen=True):
    """What an environment accepts.

    - ``discrete``: one int64 in ``0 … sizes[0]-1``;
    - ``multidiscrete``: int64 of ``shape``, one size per element in C order;
    - ``box``: float32 of ``shape``, stored raw, clipped to ``low`` and ``high`` when stepping (one
      bound per element, None: unbounded).
    """

    kind: ActionKind
    shape: tuple[Size, ...] = ()
    sizes: tuple[Size, ...] = ()
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    start: tuple[Number, ...] = ()
    """What each element's own numbers begin with; empty: 0."""
    dtype: str = "int64"
    """That of the environment's own numbers."""

    def __post_init__(self) -> None:
        _check_dtype(self.dtype)
        needed = ("low", "high") if self.kind == "box" else ("sizes",)
        for name in ("sizes", "low", "high", "start"):
            _check_each(name, getattr(self, name), self.shape, needed=name in needed)

    @property
    def stored_dtype(self) -> str:
        """Dtype of the data key ``actions``."""
        return "float32" if self.kind == "box" else "int64"


class EnvSpec(msgspec.Struct, frozen=True):
    """Everything about an environment that policies and blocks need; JSON-ready."""

    name: str
    parts: tuple[Part, ...]
    actions: ActionSpec
    dict_observations: bool = False
    autoreset: str = AutoresetMode.SAME_STEP.value
    """In which row an environment is reset after its episode has ended."""
    chosen: bool = False
    """Whether we decide that: we do not where a vector environment of the user's resets itself."""
    masked: Literal["", "observation", "info"] = ""
    """Where it says which actions may be chosen, if it does.

    Then one of the parts is ``MASK_KEY``, bool (choices,), with the choices of all sub-actions one
    after another.
    """
    unlike: str = ""
    """What differs between two that are made in the same way and reset with one seed.

    Such as a generator of its own that is not seeded: clones would share it. Empty if nothing was
    found.
    """
    left_out: tuple[str, ...] = ()
    """Parts of text, which no network here reads and no row has."""
    agents: Annotated[int, msgspec.Meta(ge=1)] = 1
    """How many rows a game has, one for each of its agents."""
    agent_names: tuple[str, ...] = ()
    """What these are called, in the order of a game's rows; empty if it is no game."""
    seats: dict[str, EnvSpec] = {}
    """What each policy sees of a game that several play, by policy; this is the first one's."""
    settable: tuple[Changeable, ...] = ()
    """What may be set while the run goes."""
    components: tuple[str, ...] = ()
    """The rewards that are paid at once, of which ``rewards`` is the weighted sum."""

    @property
    def features(self) -> tuple[Part, ...]:
        """What a policy looks at: all parts except the mask of actions."""
        return tuple(part for part in self.parts if part.name != MASK_KEY)

    def masked_by_info(self, shape: tuple[int, ...] | None = None) -> EnvSpec:
        """The same environment, whose ``info`` masks actions with arrays of that shape.

        Raises:
            Refused: actions are continuous, or there is another number of them.
        """
        try:
            mask = _mask_part(self.actions, shape or (sum(self.actions.sizes),))
        except TypeError as error:
            raise Refused([f"environment {self.name}: {error}"]) from error
        return msgspec.structs.replace(self, parts=(*self.parts, mask), masked="info")

    def resetting(self, autoreset: AutoresetMode) -> EnvSpec:
        """The same environment, reset in that mode if we decide that."""
        return msgspec.structs.replace(self, autoreset=autoreset.value) if self.chosen else self

    @property
    def skips_rows(self) -> bool:
        """Whether some rows are resets, not transitions (the key ``valid`` marks them)."""
        return self.autoreset == AutoresetMode.NEXT_STEP.value

    def data_keys(self) -> tuple[DataKey, ...]:
        """The keys of one step, in the order they are written (paper §4.2)."""
        keys = [
            DataKey(p.name, p.shape, p.dtype, stack=p.stack, padding=p.padding) for p in self.parts
        ]
        keys += [
            DataKey("actions", self.actions.shape, self.actions.stored_dtype),
            DataKey("rewards"),
            *(DataKey(component_key(name)) for name in self.components),
            DataKey("terminations", (), "bool"),
            DataKey("truncations", (), "bool"),
        ]
        if any(p.stack > 1 for p in self.parts):
            keys.append(AGES)
        if self.skips_rows:
            keys.append(DataKey(VALID_KEY, (), "bool"))
        if self.settable:
            keys.append(DataKey(CONFIGURATION_KEY, (), "int32"))
        return tuple(keys)


def component_key(name: str) -> str:
    """The data key of one of several rewards."""
    return f"rewards.{name}"


def spec_of(name: str, env: VectorEnv[Any, Any, Any]) -> EnvSpec:
    """Describe a live vector environment.

    ``env.metadata["frame_stack"] = k`` says that its observations are stacks of k frames, and
    ``env.metadata["frame_padding"]`` what they hold before an episode's first one.

    Raises:
        Refused: observations or actions are of a kind that ARTOS cannot store; lists each of them.
    """
    faults: list[str] = []
    space = env.single_observation_space
    stack = int(env.metadata.get(STACK, 1))
    padding: Padding = env.metadata.get(PADDING, "zero")
    parts = []
    masks = [leaf for path, leaf in leaves(space) if path == (MASK,)]
    for path, leaf in leaves(space):
        if path == (MASK,):
            continue
        try:
            parts.append(_part(key_of(path), leaf, stack, padding))
        except TypeError as error:
            faults.append(f"environment {name}: {error}")
    twice = {p.name for p in parts if [q.name for q in parts].count(p.name) > 1}
    faults += [
        f"environment {name}: two observations are both called {key!r}" for key in sorted(twice)
    ]
    if not parts and not faults:
        faults.append(f"environment {name}: its {space} shows nothing that can be stored")
    try:
        actions = action_spec(env.single_action_space)
        parts += [_mask_part(actions, leaf.shape or ()) for leaf in masks]
    except TypeError as error:
        faults.append(f"environment {name}: {error}")
    if faults:
        raise Refused(faults)
    mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.DISABLED))
    is_dict = isinstance(space, spaces.Dict | spaces.Tuple)
    by_mask = mode is AutoresetMode.DISABLED
    mode = AutoresetMode.SAME_STEP if by_mask else mode
    chosen = by_mask or CHOSEN in env.metadata
    masked: Literal["", "observation"] = "observation" if masks else ""
    return EnvSpec(
        name, tuple(parts), actions, is_dict, mode.value, chosen, masked,
        left_out=tuple(_texts(space)), agents=env.metadata.get(AGENTS, 1),
        agent_names=env.metadata.get(NAMES, ()), components=env.metadata.get(COMPONENTS, ()),
    )  # fmt: skip


def _texts(space: gym.Space[Any], path: Path = ()) -> Iterator[str]:
    """The parts of a Dict or a Tuple that are text, by data key."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for name, inner in _inside(space):
            yield from _texts(inner, (*path, name))
    elif path and is_text(space):
        yield key_of(path)


def is_text(space: gym.Space[Any]) -> bool:
    """Whether values of a space are text, of Gymnasium's own kind or of another package's."""
    return isinstance(space, spaces.Text) or (
        space.dtype is not None and np.dtype(space.dtype).kind in "US"
    )


def leaves(space: gym.Space[Any], path: Path = ()) -> Iterator[tuple[Path, gym.Space[Any]]]:
    """Walk nested Dict and Tuple spaces: ``(path, space)`` of every part except texts, in order."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for name, inner in _inside(space):
            if not is_text(inner):
                yield from leaves(inner, (*path, name))
    else:
        yield path, space


def _inside(space: spaces.Dict | spaces.Tuple[Any]) -> Iterable[tuple[Any, gym.Space[Any]]]:
    inside = space.spaces
    return inside.items() if isinstance(inside, Mapping) else enumerate(inside)


T = TypeVar("T")


def parts_of(
    space: gym.Space[Any], make: Callable[[str, gym.Space[Any]], T]
) -> Iterator[tuple[Path, T]]:
    """The path of every part that can be stored, with what ``make`` makes of its key and space."""
    for path, leaf in leaves(space):
        if isinstance(leaf, STORABLE):
            yield path, make(key_of(path), leaf)


def key_of(path: Path) -> str:
    """The data key of a part."""
    return ".".join((OBSERVATIONS, *map(str, path)))


def _part(key: str, space: gym.Space[Any], stack: int, padding: Padding) -> Part:
    if 0 in (space.shape or ()):
        raise TypeError(f"{key} has no elements, shape {space.shape}: leave it out")
    match space:
        case spaces.Box():
            dtype = np.dtype(np.dtype(space.dtype).type)  # in the machine's byte order
            if dtype.kind == "f" and dtype.itemsize > 4:
                dtype = np.dtype(np.float32)
            if dtype.kind not in "biuf":
                raise TypeError(f"{key} has dtype {dtype}; only numbers can be stored")
            shape = tuple(int(n) for n in space.shape)
            if stack > 1 and shape[0] != stack:
                frames = f"{stack} frames"
                raise TypeError(
                    f"{key} has shape {shape}, but metadata['frame_stack'] says {frames}"
                )
            low, high = _finite(float(space.low.min())), _finite(float(space.high.max()))
            if stack == 1:
                return Part(key, shape, dtype.name, 1, (), low, high)
            return Part(key, shape[1:], dtype.name, stack, (), low, high, padding)
        case spaces.Discrete():
            count, first = int(space.n), int(space.start)
            start = (first,) if first else ()
            return Part(key, (), "int64", 1, (count,), 0, count - 1, start=start)
        case spaces.MultiDiscrete():
            counts = tuple(int(n) for n in space.nvec.flat)
            firsts = tuple(int(n) for n in space.start.flat) if space.start.any() else ()
            return Part(key, tuple(space.nvec.shape), "int64", 1, counts, start=firsts)
        case spaces.MultiBinary():
            return Part(key, tuple(int(n) for n in space.shape), "int8", 1, (), 0, 1)
    if is_text(space):
        raise TypeError(f"{key} is text, and there is nothing else to see: wrap it as numbers")
    if isinstance(space, spaces.Sequence | spaces.Graph | spaces.OneOf):
        raise TypeError(
            f"{key} is a {type(space).__name__} space, whose values have no fixed shape: let a "
            "wrapper (gymnasium.ObservationWrapper) make a Box of a fixed size, padded"
        )
    raise TypeError(
        f"{key} is a {type(space).__name__} space; use Box, Discrete, MultiDiscrete, MultiBinary, "
        "or Dict or Tuple of these"
    )


def _mask_part(actions: ActionSpec, shape: tuple[int, ...]) -> Part:
    choices = sum(actions.sizes)
    if not choices:
        raise TypeError(f"{MASK} masks discrete actions, and these are continuous: leave it out")
    if shape != (choices,):
        raise TypeError(
            f"{MASK} has shape {shape}; it needs one number for each choice, ({choices},)"
            + ", those of all sub-actions side by side" * (len(actions.sizes) > 1)
        )
    return Part(MASK_KEY, (choices,), "bool")


def action_spec(space: gym.Space[Any]) -> ActionSpec:
    """Describe an action space.

    Raises:
        TypeError: it is not Discrete, MultiDiscrete, MultiBinary or a Box of floats, or it has no
            elements.
    """
    if 0 in (space.shape or ()):
        raise TypeError(f"actions have no elements, {space}: nothing can be chosen")
    match space:
        case spaces.Discrete():
            start = (int(space.start),) if space.start else ()
            return ActionSpec("discrete", (), (int(space.n),), (), (), start, str(space.dtype))
        case spaces.MultiDiscrete():
            sizes = tuple(int(n) for n in space.nvec.flat)
            first = tuple(int(n) for n in space.start.flat) if space.start.any() else ()
            grid = tuple(space.nvec.shape)
            return ActionSpec("multidiscrete", grid, sizes, (), (), first, str(space.dtype))
        case spaces.MultiBinary():
            shape = tuple(int(n) for n in space.shape)
            twos = (2,) * int(np.prod(shape))
            return ActionSpec("multidiscrete", shape, twos, dtype=str(space.dtype))
        case spaces.Box() if space.dtype.kind == "f":
            low = tuple(_finite(float(x)) for x in space.low.flat)
            high = tuple(_finite(float(x)) for x in space.high.flat)
            sides = tuple(int(n) for n in space.shape)
            return ActionSpec("box", sides, (), low, high, (), str(space.dtype))
    raise TypeError(action_words.unfit(space))


def _finite(bound: float) -> float | None:
    return bound if np.isfinite(bound) and abs(bound) < 1e30 else None
