"""Environments by name: Gymnasium ids, Atari ids, and factories in the user's own folder."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
from gymnasium.vector import AutoresetMode, VectorEnv

from artos.envs import hints, stacks
from artos.envs.alike import difference
from artos.envs.serial import SerialVectorEnv
from artos.envs.spec import CHOSEN, EnvSpec, spec_of
from artos.envs.trial import try_out
from artos.errors import Refused
from artos.system.under_way import under_way

AnyVectorEnv = VectorEnv[Any, Any, Any]

_FACTORY = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
_VECTOR = "vector:"
_FRAMES = 4


def make_vector(
    env: str, envs: int, seed: int = 0, autoreset: AutoresetMode = AutoresetMode.SAME_STEP
) -> AnyVectorEnv:
    """Make ``envs`` copies of an environment as one vector environment.

    ``autoreset`` says when episodes begin anew where that is for us to say: not in a vector
    environment of the user's own or of Gymnasium's.

    ``env`` is one of

    - a Gymnasium id (``CartPole-v1``), ``module:ID`` where importing the module registers it;
    - ``vector:ID`` for the id's own vectorised implementation where it has one;
    - an Atari id (``PongNoFrameskip-v4``, ``ALE/Pong-v5``): the standard preprocessing;
    - ``module:factory``, which returns an Env or a VectorEnv and gets ``seed`` and ``num_envs`` if
      it accepts them. ``seed`` matters only there: ``Stepper.reset`` seeds the episodes.

    Raises:
        Refused: unknown name (with the closest ones), missing extra, or a factory that fails.
    """
    made = _open(env, envs, seed, autoreset)
    if made.num_envs != envs:
        made.close()
        raise Refused(
            [
                f"environment {env}: made {made.num_envs} environments where {envs} were asked "
                "for; let the factory accept num_envs, or set envs to what it makes"
            ]
        )
    return made


def describe(env: str) -> EnvSpec:
    """Describe an environment as plain data; builds it once, resets and steps it, and closes it.

    Raises:
        Refused: it cannot be made, its spaces cannot be stored, or what it returns is not what they
            say.
    """
    with under_way(f"environment {env}", "being made"):
        made = _open(env, 1, 0, AutoresetMode.SAME_STEP)
    try:
        spec = spec_of(env, made)
        if is_atari(env):
            return spec
        masks, shown = try_out(env, made, spec)
        unlike = _unlike(env, (made, shown), spec)
        stacks.declare(made, masked=masks is not None)
        spec = msgspec.structs.replace(spec_of(env, made), unlike=unlike)
        return spec if masks is None else spec.masked_by_info(masks)
    except Refused:
        raise
    except Exception as error:
        raise Refused([f"environment {env} fails: {_tail(error)}"]) from error
    finally:
        made.close()


def _unlike(env: str, one: tuple[AnyVectorEnv, Any], spec: EnvSpec) -> str:
    """See ``EnvSpec.unlike``; ``one`` was tried out just now, and has shown that."""
    with under_way(f"environment {env}", "being made"):
        other = _open(env, 1, 0, AutoresetMode.SAME_STEP)
    try:
        shown = try_out(env, other, spec).shown
        return difference(one[0], other, "env") or difference(one[1], shown, "what it shows")
    finally:
        other.close()


def _open(env: str, envs: int, seed: int, autoreset: AutoresetMode) -> AnyVectorEnv:
    if _FACTORY.match(env):
        return _from_factory(env, envs, seed, autoreset)
    if is_atari(env):
        return _atari(env, envs, autoreset)
    return _registered(env, envs, autoreset)


# -- Gymnasium ids -----------------------------------------------------------------------------


def _registered(env: str, envs: int, autoreset: AutoresetMode) -> AnyVectorEnv:
    vectorised = env.startswith(_VECTOR)
    name = env.removeprefix(_VECTOR)
    spec = _spec(name)
    if vectorised and spec.vector_entry_point is None:
        raise Refused([f"{name} has no vectorised implementation of its own: use --env {name}"])
    try:
        if vectorised:
            return gym.make_vec(name, envs, vectorization_mode="vector_entry_point")
        makers = [partial(gym.make, name, disable_env_checker=True)] * envs
        return SerialVectorEnv(makers, autoreset)
    except Refused:
        raise
    except Exception as error:
        missing = hints.unmade(name, spec, error)
        raise Refused([missing or f"environment {name} cannot be made: {_tail(error)}"]) from error


def _spec(name: str) -> Any:
    module, _, known = name.rpartition(":")
    if module:
        _module(name, module)  # importing it registers the id
    try:
        return gym.spec(known)
    except (gym.error.Error, ModuleNotFoundError) as error:
        with suppress(ImportError):
            importlib.import_module("ale_py")  # so that its games are among the names
        raise Refused([hints.unknown(known)]) from error


# -- Atari -------------------------------------------------------------------------------------


def is_atari(env: str) -> bool:
    """Whether a name is an Atari game, which gets the standard preprocessing."""
    return env.startswith("ALE/") or bool(re.search(r"NoFrameskip-v\d+$", env))


def _atari(env: str, envs: int, autoreset: AutoresetMode) -> AnyVectorEnv:
    """The preprocessing usual since Mnih et al. 2015, done by ale-py itself on one thread.

    Frame skip 4 with max-pooling, 84×84 grey, 4 frames stacked (zeros before the episode began),
    up to 30 no-ops and FIRE at the start. Rewards are raw and lives do not end episodes here:
    ``Stepper`` clips and marks lost lives where asked, so reported returns stay raw.
    """
    try:
        import ale_py  # noqa: PLC0415 (an extra)
        from ale_py.vector_env import AtariVectorEnv  # noqa: PLC0415
    except ImportError as error:
        raise Refused(
            [f"environment {env} needs the Atari extra: pip install 'artos[atari]'"]
        ) from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    options = _spec(env).kwargs
    made = AtariVectorEnv(
        game=options["game"],
        num_envs=envs,
        num_threads=1,
        max_num_frames_per_episode=options.get("max_num_frames_per_episode", 108_000),
        repeat_action_probability=options["repeat_action_probability"],
        full_action_space=options.get("full_action_space", False),
        autoreset_mode=autoreset,
        stack_num=_FRAMES,
        reward_clipping=False,
    )
    made.metadata = {"autoreset_mode": autoreset, CHOSEN: True, "frame_stack": _FRAMES}
    vector: AnyVectorEnv = made
    return vector


# -- the user's own ----------------------------------------------------------------------------


def _from_factory(env: str, envs: int, seed: int, autoreset: AutoresetMode) -> AnyVectorEnv:
    factory = _import(env)
    first = _call(env, factory, envs, seed)
    if isinstance(first, VectorEnv):
        return first
    if not isinstance(first, gym.Env):
        raise Refused(
            [
                f"{env} returned a {type(first).__name__}; it must return a gymnasium.Env or "
                "gymnasium.vector.VectorEnv"
            ]
        )
    rest = [partial(_call, env, factory, envs, seed + i) for i in range(1, envs)]
    return SerialVectorEnv([lambda: first, *rest], autoreset)


def _import(env: str) -> Callable[..., Any]:
    module, _, name = env.partition(":")
    found = getattr(_module(env, module), name, None)
    if found is None:
        raise Refused([f"environment {env}: module {module} has no {name}"])
    if not callable(found):
        raise Refused([f"environment {env}: {name} is a {type(found).__name__}, not a function"])
    factory: Callable[..., Any] = found
    return factory


def _module(env: str, module: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        # At the end, so that no file of the user's shadows an installed package.
        sys.path.append(here)
    try:
        return importlib.import_module(module)
    except Exception as error:
        raise Refused([f"environment {env}: {_unimported(module, error)}"]) from error


def _unimported(module: str, error: Exception) -> str:
    if module.endswith(".py"):
        return f"write the module's name, {module.removesuffix('.py')}, without .py"
    if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
        return f"there is no module {error.name} in this folder{hints.package_of(module)}"
    return f"{module} cannot be imported: {_tail(error)}"


def _call(env: str, factory: Callable[..., Any], envs: int, seed: int) -> Any:
    try:
        return factory(**_accepted(factory, {"seed": seed, "num_envs": envs}))
    except Exception as error:
        raise Refused([f"environment {env}: the factory failed: {_tail(error)}"]) from error


def _accepted(factory: Callable[..., Any], offered: dict[str, int]) -> dict[str, int]:
    try:
        names = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return {}
    return {name: value for name, value in offered.items() if name in names}


def _tail(error: BaseException, lines: int = 3) -> str:
    """The last lines of a traceback, enough to find the place."""
    text = "".join(traceback.format_exception(error)).strip().splitlines()
    return "\n  ".join(text[-lines:])
