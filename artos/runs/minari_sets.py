"""Reads data sets of Minari's: whole episodes, which become rows as an actor writes them.

An episode of T steps has T + 1 rows. The last one only holds the observation that the last step led
to, and is no transition (``valid`` is False).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np
from numpy.typing import NDArray

from artos.envs.shown import Mismatch, Stored, at
from artos.envs.spec import action_spec, leaves, parts_of
from artos.errors import Refused
from artos.specs.keys import AGES_KEY, VALID_KEY
from artos.specs.unreadable import UNREADABLE

_OLDEST = 255
_FLAGS = ("terminations", "truncations", VALID_KEY)

Arrays = dict[str, NDArray[Any]]
Forms = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]


def located(name: str) -> Path:
    """The folder of a data set of this name, ``D4RL/pen/human-v2``, on this machine.

    Raises:
        Refused: Minari is not installed.
    """
    _minari()
    from minari.storage.datasets_root_dir import get_dataset_path  # noqa: PLC0415

    return Path(get_dataset_path(name)).resolve() / "data"


def forms(path: Path) -> Forms:
    """Shape and dtype of what the rows have, without their values.

    Raises:
        Refused: Minari is not installed.
        ValueError: its spaces cannot be stored.
    """
    found = _opened(path)
    rows, kept = found.total_steps + found.total_episodes, _Kept(found)
    empty: Forms = {name: ((rows, *x.shape[1:]), x.dtype) for name, x in kept.nothing().items()}
    return empty


def read(path: Path) -> Arrays:
    """All rows by data key, (rows, *shape).

    Raises:
        Refused: Minari is not installed.
        ValueError: it holds something else than its spaces say.
    """
    found = _opened(path)
    kept, episodes = _Kept(found), found.get_episodes(range(found.total_episodes))
    parts = [kept.nothing(), *(kept.rows(episode) for episode in episodes)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class _Kept:
    """What is stored of the episodes of a data set."""

    def __init__(self, found: Any) -> None:
        space = found.observation_space
        self._observations = [*parts_of(space, Stored)]
        if len(self._observations) < len([*leaves(space)]):
            raise ValueError(f"its observations are {space}, which cannot be stored")
        try:
            self._actions = action_spec(found.action_space)
        except TypeError as error:
            raise ValueError(f"its {error}") from error

    def nothing(self) -> Arrays:
        """No rows."""
        shape, dtype = self._actions.shape, self._actions.stored_dtype
        return {
            **{s.key: s.rows(np.zeros((0, *s.shape), s.dtype)) for _, s in self._observations},
            "actions": np.zeros((0, *shape), dtype),
            "rewards": np.zeros(0, np.float32),
            **{name: np.zeros(0, np.bool_) for name in _FLAGS},
            AGES_KEY: np.zeros(0, np.uint8),
        }

    def rows(self, episode: Mapping[str, Any]) -> Arrays:
        """Those of an episode; one that was cut off counts as truncated."""
        name, steps = f"episode {episode['id']}", len(episode["rewards"])
        try:
            seen = {
                stored.key: stored(at(episode["observations"], path, stored.key), (steps + 1,))
                for path, stored in self._observations
            }
        except Mismatch as error:
            raise ValueError(f"{name} is not as its spaces say: {error}") from error
        ends = {key: _longer(episode[key], np.bool_) for key in ("terminations", "truncations")}
        if steps and not (ends["terminations"] | ends["truncations"])[steps - 1]:
            ends["truncations"][steps - 1] = True
        actions = _longer(episode["actions"], np.dtype(self._actions.stored_dtype))
        if self._actions.start:
            start = np.array(self._actions.start, np.int64).reshape(self._actions.shape)
            actions[:-1] -= start
        return {
            **seen,
            "actions": actions,
            "rewards": _longer(episode["rewards"], np.float32),
            **ends,
            VALID_KEY: np.arange(steps + 1) < steps,
            AGES_KEY: np.arange(steps + 1).clip(max=_OLDEST).astype(np.uint8),
        }


def _longer(values: Any, dtype: Any) -> NDArray[Any]:
    """Values of the steps of an episode, and one of its last observation, which is 0."""
    found = np.asarray(values)
    return np.concatenate((found, np.zeros((1, *found.shape[1:]), found.dtype))).astype(dtype)


def _opened(path: Path) -> Any:
    _minari()
    from minari.dataset.minari_storage import MinariStorage  # noqa: PLC0415

    metadata = MinariStorage.read_raw_metadata(path)
    if not {"observation_space", "action_space"} <= metadata.keys():
        _check_spec(path, metadata.get("env_spec"))
    try:
        return MinariStorage.read(path)
    except ImportError as error:  # of the package that its format needs
        raise Refused([f"{path}: {error}"]) from error


def _check_spec(path: Path, text: Any) -> None:
    """Refuse a data set without spaces that has its own idea of how to make its environment.

    Minari makes it to see its spaces, so whoever wrote the data set could have anything called.
    """
    try:
        spec = msgspec.json.decode(text or "null", type=_Spec)
    except UNREADABLE as error:
        raise Refused([f"{path} has neither spaces nor an env_spec that can be read"]) from error
    known = gym.registry.get(spec.id)
    if known is None or spec.entry_point != known.entry_point or spec.additional_wrappers:
        raise Refused(
            [f"{path} has no spaces, and to see those of its environment {spec.id} it would call "
             f"{spec.entry_point}, which is not what is registered under that name"]
        )  # fmt: skip


class _Spec(msgspec.Struct):
    id: str
    entry_point: str
    additional_wrappers: list[Any] = []


def _minari() -> None:
    try:
        import minari  # noqa: F401, PLC0415 (an extra)
    except ImportError as error:
        raise Refused(
            [f"data sets of Minari's need the extra minari: pip install 'artos[minari]' ({error})"]
        ) from error
