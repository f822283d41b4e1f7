"""Environments composed of all that they may do with what crosses between them and a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import FrameStackObservation
from odd_worlds import ACTED, MODES, OBSERVED, Habits, World

Array = np.ndarray[Any, Any]

_SHARED: dict[Any, Any] = {}
"""Arrays that all environments of the process write into."""


class Memory:
    """Arrays that are written again and again: an environment's own, or everybody's."""

    def __init__(self, shared: bool) -> None:
        self._arrays = _SHARED if shared else {}

    def put(self, key: Any, array: Array) -> Array:
        """``array`` in the place of what was there."""
        place = key, array.shape, array.dtype.str
        kept: Array = self._arrays.setdefault(place, np.zeros_like(array))
        kept[...] = array
        return kept


class Looks:
    """Has arrays look as ``how`` says; the numbers stay the same."""

    def __init__(self, how: str) -> None:
        self.how, self.memory = how, Memory(how == "shared")

    def __call__(self, array: Array, key: Any) -> Any:
        """The same numbers in another array, or in none."""
        put = self.memory.put
        match self.how:
            case "reused" | "shared":
                return put(key, array)
            case "strided":
                return put(key, np.repeat(array, 2, -1))[..., ::2] if array.ndim else array
            case "reversed":
                return put(key, array[..., ::-1])[..., ::-1] if array.ndim else array
            case "fortran":
                return array.copy("F")
            case "readonly":
                array.flags.writeable = False
                return array
            case "swapped":
                return put(key, array.astype(array.dtype.newbyteorder()))
            case "list":
                return array.tolist()
            case "wide":
                return array.astype(np.float64)
            case "tensor":
                kind = np.float64 if array.dtype == np.longdouble else array.dtype.type
                return torch.from_numpy(put(key, array.astype(kind)))
            case "subclass":
                return put(key, array).view(np.recarray)
        return array


class Odd(gym.Env[Any, Any]):
    """An environment with habits; ``tidy``: with none of those that a plain loop cannot see."""

    def __init__(self, habits: Habits, tidy: bool = False) -> None:
        self.world, self.habits, self.tidy = World(habits), habits, tidy
        self.action_space = ACTED[habits.acted]
        self._seen_space = space = OBSERVED[habits.observed]
        self.sizes = sizes_of(self.action_space)
        if habits.masks == "observation":
            flags = spaces.Box(0, 1, (sum(self.sizes),), np.int8)
            space = spaces.Dict({"seen": space, "action_mask": flags})
        self.observation_space = space
        self._looks = Looks("fresh" if tidy else habits.shown)
        self._paid = Looks("shared" if habits.shown == "shared" else "reused")
        self._kept: Any = None
        self._before = b""
        self._info: dict[str, Any] = _SHARED.setdefault("info", {})
        if habits.infos != "shared":
            self._info = {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.world.begin(seed)
        self._kept, self._before = None, b""
        return self._shown(), self._told()

    def step(self, action: Any) -> Any:
        space = self.action_space
        one = isinstance(space, spaces.Discrete)
        assert space.contains(action if one else np.asarray(action)), (space, action)
        assert one or np.asarray(action).dtype == space.dtype
        numbers = bytes_of(space, action)
        if self.sizes and self.habits.masks:
            self._require_allowed(action)
        before = self._before if self._kept is None else bytes_of(space, self._kept)
        self.world.act(numbers, before)
        self._before = numbers
        if not self.tidy and isinstance(action, np.ndarray) and action.ndim:
            if self._kept is not None:
                self._kept[...] = 0
            self._kept = action if self.habits.taken == "keeps" else None
            if self.habits.taken == "writes":
                action[...] = 0
        flags = [self._flag(flag, i) for i, flag in enumerate(self.world.ends)]
        return self._shown(), self._reward(), *flags, self._told()

    def _require_allowed(self, action: Any) -> None:
        first = np.ravel(action - getattr(self.action_space, "start", 0))
        places = first.astype(int) + np.cumsum((0, *self.sizes[:-1]))
        assert self.mask[places].all(), f"{action} is forbidden: {self.mask}"

    @property
    def mask(self) -> Array:
        return self.world.mask(self.sizes)

    def _shown(self) -> Any:
        seen = looking(self.world.seen(self._seen_space), self._looks)
        if self.habits.masks == "observation":
            return {"seen": seen, "action_mask": self._looks(self.mask, "mask")}
        return seen

    def _told(self) -> dict[str, Any]:
        info = {} if self.habits.infos == "fresh" or self.tidy else self._info
        info.clear()
        if self.habits.infos != "fresh":
            info |= {"final_obs": "rubbish", "final_info": 3, "episode": None, "_lives": 2}
        if self.habits.masks == "info":
            info["action_mask"] = self._looks(self.mask, "mask")
        return info

    def _reward(self) -> Any:
        return self._number(self.world.reward, self.habits.paid, "reward")

    def _flag(self, flag: bool, which: int) -> Any:
        return self._number(flag, self.habits.said, f"flag {which}")

    def _number(self, number: Any, how: str, key: str) -> Any:
        kinds = {
            "float": float, "float64": np.float64, "float32": np.float32, "int": int,
            "int64": np.int64, "bool": bool, "bool_": np.bool_,
        }  # fmt: skip
        if self.tidy:
            return bool(number) if key.startswith("flag") else float(number)
        if how in kinds:
            return kinds[how](number)
        array = np.asarray(number)
        match how:
            case "zero-d":
                return self._paid(array, key)
            case "one":
                return self._paid(array.reshape(1), key)
            case "list":
                return [float(number)]
        return torch.tensor(number)


def looking(seen: Any, looks: Looks, path: tuple[Any, ...] = ()) -> Any:
    """All arrays of an observation as ``looks`` has them."""
    if isinstance(seen, dict):
        return {name: looking(part, looks, (*path, name)) for name, part in seen.items()}
    if isinstance(seen, tuple):
        return tuple(looking(part, looks, (*path, i)) for i, part in enumerate(seen))
    if isinstance(seen, np.integer) and looks.how == "fresh":
        return seen
    return looks(np.array(seen), path)


def sizes_of(space: gym.Space[Any]) -> tuple[int, ...]:
    """Choices of each sub-action; empty if actions are continuous."""
    match space:
        case spaces.Discrete():
            return (int(space.n),)
        case spaces.MultiDiscrete():
            return tuple(map(int, space.nvec.flat))
        case spaces.MultiBinary():
            return (2,) * int(np.prod(space.shape))
    return ()


def bytes_of(space: gym.Space[Any], action: Any) -> bytes:
    """The bytes of an action; zeros have no sign."""
    return (np.array(action, space.dtype, order="C") + space.dtype.type(0)).tobytes()


# -- vector environments -----------------------------------------------------------------------


class OwnVector(VectorEnv[Any, Any, Any]):
    """Many of them, whose arrays of all rows look as the habits say."""

    def __init__(self, habits: Habits, num_envs: int, mode: AutoresetMode) -> None:
        self.envs = [Odd(habits, tidy=True) for _ in range(num_envs)]
        self.num_envs, self.metadata, self._mode = num_envs, {"autoreset_mode": mode}, mode
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.habits, self._looks = habits, Looks(habits.shown)
        self._obs: list[Any] = [None] * num_envs
        self._masks: list[Any] = [None] * num_envs
        self._over = np.zeros(num_envs, bool)
        self._kept: Any = None
        self._info: dict[str, Any] = {}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self._kept = None
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        for i in np.flatnonzero(mask).tolist():
            self._begin(i, None if seed is None else seed + i)
        for key in ("reward", 0, 1):  # a reset spoils what was returned last
            self._columns(np.full(self.num_envs, 1.0 if key else -99.0), key)
        self._over[mask] = False
        return self._shown(self._obs), self._told(self._masks)

    def _begin(self, env: int, seed: int | None = None) -> None:
        self._obs[env], info = self.envs[env].reset(seed=seed)
        self._masks[env] = info.get("action_mask")

    def step(self, actions: Any) -> Any:
        space = self.single_action_space
        if self._kept is not None:
            given, kept = self._kept
            assert (given == kept).all(), "an action that was handed over has changed"
            kept[...] = 0
        rows: list[tuple[float, bool, bool]] = []
        for i, env in enumerate(self.envs):
            if self._over[i] and self._mode is AutoresetMode.NEXT_STEP:
                self._begin(i)
                rows.append((0.0, False, False))
                continue
            action = actions[i] if space.shape else space.dtype.type(actions[i])
            self._obs[i], *row, info = env.step(action)
            self._masks[i] = info.get("action_mask")
            rows.append(tuple(row))
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        self._kept = (actions.copy(), actions) if self.habits.taken == "keeps" else None
        if self.habits.taken == "writes":
            actions[...] = 0
        self._over = columns[1] | columns[2]
        last = {}
        if self._mode is AutoresetMode.SAME_STEP and self._over.any():
            last = self._last()
        names = zip(columns, ("reward", 0, 1), strict=True)
        results = [self._columns(column, name) for column, name in names]
        return self._shown(self._obs), *results, self._told(self._masks) | last

    def _last(self) -> dict[str, Any]:
        """The last observations as one of the layouts there are; then the next episodes."""
        flat = isinstance(self._obs[0], np.ndarray | np.generic)
        info = {"final_info": dict(self._told([*self._masks]))} if self.habits.masks else {}
        if info:
            info["final_info"] = {n: np.array(x) for n, x in info["final_info"].items()}
        if flat and self.habits.infos == "fresh":
            info["final_obs"] = self._looks(np.array(self._obs), "last")
        else:
            info["final_obs"] = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(self._over):
                info["final_obs"][i] = looking(self._obs[i], self._looks, ("last", i))
        for i in np.flatnonzero(self._over).tolist():
            self._begin(i)
        return info

    def _columns(self, column: Array, key: Any) -> Any:
        if key == "reward" and self.habits.paid == "float32":
            column = column.astype(np.float32)
        if key != "reward" and self.habits.said in ("int", "int64"):
            column = column.astype(np.int64)
        return self._looks(column, key)

    def _shown(self, rows: list[Any], path: tuple[Any, ...] = ()) -> Any:
        if isinstance(rows[0], Mapping):
            parts = {n: [row[n] for row in rows] for n in rows[0]}
            return {n: self._shown(part, (*path, n)) for n, part in parts.items()}
        if isinstance(rows[0], tuple):
            columns = enumerate(zip(*rows, strict=True))
            return tuple(self._shown([*column], (*path, i)) for i, column in columns)
        return self._looks(np.array(rows), path)

    def _told(self, masks: list[Any]) -> dict[str, Any]:
        info = self._info if self.habits.infos != "fresh" else {}
        info.clear()
        if self.habits.masks == "info":
            kept = Looks("fresh" if self.habits.shown in ("list", "tensor") else self.habits.shown)
            kept.memory = self._looks.memory
            info["action_mask"] = kept(np.array(masks), "masks")
        return info


# -- factories ---------------------------------------------------------------------------------


def plain(habits: Habits) -> gym.Env[Any, Any]:
    """The environment as a plain loop sees it, with no bad habits."""
    return _stacked(habits, Odd(habits, tidy=True))


def make(num_envs: int, **habits: str) -> Any:
    """One environment, or a vector environment where ``made`` says so."""
    return made(Habits(**habits), num_envs)


def made(habits: Habits, num_envs: int) -> Any:
    """What the habits say."""

    def one() -> gym.Env[Any, Any]:
        return _stacked(habits, Odd(habits))

    who, _, mode = habits.made.partition(" ")
    makers: dict[str, Callable[[], Any]] = {
        "single": one,
        "sync": lambda: SyncVectorEnv([one] * num_envs, copy=False, autoreset_mode=MODES[mode]),
        "own": lambda: OwnVector(habits, num_envs, MODES[mode]),
    }
    return makers[who]()


def _stacked(habits: Habits, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    return FrameStackObservation(env, 3) if habits.observed == "frames" else env


gym.register(
    "Odd-v0",
    entry_point=lambda **habits: made(Habits(**habits), 1),
    vector_entry_point=lambda num_envs, **habits: made(Habits(**habits), num_envs),
)
