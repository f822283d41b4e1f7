"""Hints for an environment that cannot be made: what to install, or which one was meant."""

from __future__ import annotations

import difflib
import importlib.util
import re
from typing import Any

import gymnasium as gym

_EXTRAS = {"gymnasium.envs.mujoco.": "mujoco", "gymnasium.envs.box2d.": "box2d"}
"""Our extras, by the package that holds their environments."""

_PACKAGES = (
    (
        r"Fetch|Hand(Reach|Manipulate)|(Ant|Point)Maze_|AdroitHand|FrankaKitchen",
        "gymnasium-robotics",
        "gymnasium_robotics",
    ),
    (r"MiniGrid-|BabyAI-", "minigrid", "minigrid"),
    (r"(highway|merge|roundabout|parking|intersection)-", "highway-env", "highway_env"),
    (r"dm_control/", "shimmy[dm-control]", "shimmy"),
)
"""Well-known packages: how their environments' names begin, what to install, what to import."""

_ABSENT = (ImportError, gym.error.DependencyNotInstalled)
_VARIANT = re.compile(r"^.*/|(NoFrameskip|Deterministic|-ram\w*)?(-v\d+)?$")


def unknown(name: str) -> str:
    """The fault that no environment ``name`` is registered: what to install, or similar names."""
    for names, package, module in _PACKAGES:
        if re.match(names, name):
            there = importlib.util.find_spec(module)
            needs = "" if there else f" needs another package: pip install '{package}', then"
            return f"environment {name!r}{needs or ': write'} --env {module}:{name}"
    hint = _meant(name) or _perhaps_atari(name)
    return f"unknown environment {name!r}{hint} Or give your own as module:factory."


def unmade(name: str, spec: Any, error: Exception) -> str:
    """The fault that ``name`` is registered but cannot be made; empty if nothing is missing."""
    if _given_up(spec):
        return f"environment {name} is no longer maintained{_meant(name) or f': {error}'}"
    for place, extra in _EXTRAS.items():
        if str(spec.entry_point).startswith(place) and isinstance(error, _ABSENT):
            return f"environment {name} needs the extra {extra}: pip install 'artos[{extra}]'"
    if isinstance(error, ModuleNotFoundError):
        return f"environment {name} needs the Python package {error.name}: it is not installed"
    return f"environment {name}: {error}" if isinstance(error, _ABSENT) else ""


def package_of(module: str) -> str:
    """How to install a well-known module; empty for others."""
    found = [package for _, package, known in _PACKAGES if known == module]
    return f": pip install '{found[0]}'" if found else ""


def _meant(name: str) -> str:
    """A hint at other versions of the same environment, or else at the most similar names."""
    known, base = _by_base(), _base(name)
    near = [base] if base in known else difflib.get_close_matches(base, known, n=2, cutoff=0.7)
    return f": did you mean {' or '.join(known[each] for each in near)}?" if near else ""


def _by_base() -> dict[str, str]:
    """What to write for each environment, by its name without version."""
    found: dict[str, str] = {}
    for spec in sorted(gym.registry.values(), key=lambda spec: spec.version or 0):
        if spec.namespace == "ALE":
            found[_base(spec.id)] = f"{spec.name}NoFrameskip-v4 or {spec.id}"
        elif not spec.namespace and not _given_up(spec):
            found.setdefault(_base(spec.id), "")
            if "ALE/" not in found[_base(spec.id)]:
                found[_base(spec.id)] = spec.id
    return found


def _given_up(spec: Any) -> bool:
    """Whether Gymnasium has dropped an environment and only keeps a function that raises."""
    return getattr(spec.entry_point, "__module__", "") == "gymnasium.envs"


def _base(name: str) -> str:
    return _VARIANT.sub("", name).lower()


def _perhaps_atari(name: str) -> str:
    if importlib.util.find_spec("ale_py") is not None:
        return "."
    game = f"{_VARIANT.sub('', name)}NoFrameskip-v4"
    return f". If it is an Atari game: pip install 'artos[atari]', then --env {game}."
