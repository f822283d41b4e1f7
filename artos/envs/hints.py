"""Hints for an environment that cannot be made: what to install, or which one was meant."""

from __future__ import annotations

import difflib
import importlib.util
import pkgutil
import re
import sys
import traceback
from importlib.metadata import PackageNotFoundError, metadata, version
from typing import Any

import gymnasium as gym

from artos.system.closest import closest

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
    (r"Vizdoom", "vizdoom", "vizdoom.gymnasium_wrapper"),
    (r"Meta-World/", "metaworld", "metaworld"),
    (r"popgym-", "popgym", "popgym"),
    (r"(mo|minecart|deep-sea-treasure|resource-gathering)-", "mo-gymnasium", "mo_gymnasium"),
)
"""Well-known packages: how their environments' names begin, what to install, what to import."""

_ABSENT = (ImportError, gym.error.DependencyNotInstalled)
_VARIANT = re.compile(r"^.*/|(NoFrameskip|Deterministic|-ram\w*)?(-v\d+)?$")


def unknown(name: str, module: str = "") -> str:
    """The fault that no environment ``name`` is registered: what to install, or similar names.

    ``module`` is the package that was named with it, and was imported.
    """
    known = next((there for names, _, there in _PACKAGES if re.match(names, name)), module)
    if module and known != module and known.partition(".")[0] == module:
        return f"{module} registers no environment {name!r}: write --env {known}:{name}"
    if module:
        near = difflib.get_close_matches(name, _of_package(module), n=3, cutoff=0.5)
        hint = f": did you mean {' or '.join(f'{module}:{each}' for each in near)}?" if near else ""
        return f"{module} registers no environment {name!r}{hint or _meant(name)}"
    for names, package, place in _PACKAGES:
        if re.match(names, name):
            there = importlib.util.find_spec(place.partition(".")[0])
            needs = "" if there else f" needs another package: pip install '{package}', then"
            return f"environment {name!r}{needs or ': write'} --env {place}:{name}"
    if not (hint := _meant(name)):
        game = f"{_VARIANT.sub('', name)}NoFrameskip-v4"
        hint = f". If it is an Atari game: pip install 'artos[atari]', then --env {game}."
        if importlib.util.find_spec("ale_py") is not None:
            hint = "."
    return f"unknown environment {name!r}{hint} Or give your own as module:factory."


def package_that_registers(spec: Any) -> str:
    """The top-level package of an environment's class."""
    entry = spec.entry_point or spec.vector_entry_point
    place = entry if isinstance(entry, str) else getattr(entry, "__module__", "")
    return re.split(r"[.:]", place or "")[0]


def _of_package(module: str) -> list[str]:
    top = module.partition(".")[0]
    return [name for name, spec in gym.registry.items() if package_that_registers(spec) == top]


def no_factory(module: str, name: str) -> str:
    """The fault that a module has no function ``name``, which may be meant as part of an id."""
    if name == "parallel_env":
        return (
            f"module {module} has no parallel_env, in which all agents act at once, and no env, "
            "for a game in turns: write one of them, or a gymnasium.Env that plays the other agents"
        )
    near = difflib.get_close_matches(name, _of_package(module), n=3, cutoff=0.4)
    also = f": did you mean {' or '.join(f'{module}:{each}' for each in near)}?" if near else ""
    return f"module {module} has no {name}{also}"


def unmade(name: str, spec: Any, error: Exception) -> str:
    """The fault that ``name`` is registered but cannot be made; empty if the reason is unknown."""
    if _given_up(spec):
        return f"environment {name} is no longer maintained{_meant(name) or f': {error}'}"
    for place, extra in _EXTRAS.items():
        if str(spec.entry_point).startswith(place) and isinstance(error, _ABSENT):
            return f"environment {name} needs the extra {extra}: pip install 'artos[{extra}]'"
    if isinstance(error, ModuleNotFoundError):
        return f"environment {name} needs the Python package {error.name}: it is not installed"
    if isinstance(error, _ABSENT):
        return f"environment {name}: {error}"
    if why := lacking(error):
        return f"environment {name}: {why}"
    return _newer_mujoco(name, error)


def lacking(error: Exception) -> str:
    """Which arguments an environment lacks, by the error of making it; empty for other errors."""
    found = re.search(r"missing \d+ required [\w-]+ arguments?: (.*)", str(error))
    names = re.findall(r"'(\w+)'", found[1]) if found and isinstance(error, TypeError) else []
    return f"it needs arguments: {' '.join(f'--env-arg {n}=...' for n in names)}" if names else ""


def _newer_mujoco(name: str, error: Exception) -> str:
    """The fault that a package was made for an older MuJoCo, by its error; empty if it was not."""
    try:
        newest = tuple(int(part) for part in version("mujoco").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return ""
    places = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    robotics = any("gymnasium_robotics" in place for place in places)
    usable, wanted = ((3, 8), "mujoco<3.9") if robotics else ((3, 99), "mujoco<4")
    concerned = any("mujoco" in text for text in (str(error).lower(), *places))
    if newest <= usable or not concerned:
        return ""
    said = f"{type(error).__name__}: {error}"
    return (
        f"environment {name} fails with MuJoCo {version('mujoco')} ({said}), and was made for an "
        f"older one: pip install '{wanted}'"
    )


def not_an_environment(env: str, made: Any) -> str:
    """The fault that a factory returned something else, and what to do about the usual cases."""
    kind = type(made)
    said = f"{env} returned a {kind.__name__}; "
    if callable(getattr(made, "step", None)) and callable(getattr(made, "reset", None)):
        return said + (
            "it steps, but is no gymnasium.Env (an older interface?): return it in a gymnasium.Env "
            "whose reset gives (observation, info) and whose step gives five values; for the "
            "package gym, shimmy.GymV21CompatibilityV0(env=...) is one"
        )
    return said + "it must return a gymnasium.Env or gymnasium.vector.VectorEnv"


def rewards_of(made: Any) -> tuple[int, ...]:
    """The shape of an environment's rewards; (1,) if they are numbers, unlike in MO-Gymnasium."""
    shape = getattr(getattr(made.unwrapped, "reward_space", None), "shape", None) or (1,)
    inside = made
    while isinstance(inside, gym.Wrapper) and shape != (1,):
        shape = (1,) if type(inside).__name__ == "LinearReward" else shape
        inside = inside.env
    return tuple(shape)


def many_rewards(env: str, shape: tuple[int, ...]) -> str:
    """The fault that rewards have this shape, and are not named."""
    named = ", ".join(f'"reward_{number}": 1.0' for number in range(*shape[:1]))
    return (
        f"environment {env} pays rewards of shape {shape}, and a learner here needs one number: "
        f"name them, with their weights in it, --env-arg 'components={{{named}}}', or return "
        "mo_gymnasium.wrappers.LinearReward(env, weight) from a factory"
    )


def package_of(module: str) -> str:
    """How to install a well-known module; empty for others."""
    found = [package for _, package, known in _PACKAGES if known == module]
    return f": pip install '{found[0]}'" if found else ""


def lacks_module(module: str, lacking: str) -> str:
    """The fault that a module was found, and one that it imports was not: what to install."""
    package, _, inner = module.partition(".")
    if lacking.partition(".")[0] == package:  # installed, and without such a module
        folder, _, name = lacking.rpartition(".")
        there = pkgutil.iter_modules(getattr(sys.modules.get(folder), "__path__", ()))
        return f"there is no module {lacking}{closest(name, [each.name for each in there])}"
    wanted, extra = lacking.partition(".")[0], inner.partition(".")[0]
    if package == "pettingzoo" and extra in (metadata(package).get_all("Provides-Extra") or ()):
        wanted = f"'{package}[{extra}]'"
    return f"{module} needs the Python package {lacking}: pip install {wanted}"


def _meant(name: str) -> str:
    """A hint at other versions of the same environment, or at the most similar names."""
    known, base = _by_base(), _base(name)
    near = [base] if base in known else difflib.get_close_matches(base, known, n=2, cutoff=0.7)
    return f": did you mean {' or '.join(known[each] for each in near)}?" if near else ""


def usual(name: str) -> str:
    """What to write to get the usual preprocessing of an Atari game, by any of its names."""
    return _by_base()[_base(name)]


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
    """Whether Gymnasium has dropped an environment, and keeps only a function that raises."""
    return getattr(spec.entry_point, "__module__", "") == "gymnasium.envs"


def _base(name: str) -> str:
    return _VARIANT.sub("", name).lower()
