"""Environments by name: Gymnasium ids, Atari ids, and factories in the user's own folder."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
from gymnasium.vector import AutoresetMode, VectorEnv

from artos.closest import closest
from artos.envs import hints, stacks
from artos.envs.address import address, parted
from artos.envs.agents import AgentRows, is_supersuit
from artos.envs.alike import difference
from artos.envs.serial import SerialVectorEnv
from artos.envs.spec import CHOSEN, STACK, EnvSpec, spec_of
from artos.envs.trial import try_out
from artos.errors import Refused
from artos.system.under_way import under_way

AnyVectorEnv = VectorEnv[Any, Any, Any]

_FACTORY = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
_VECTOR = "vector:"
_ALE = "ale_py:"
_FRAMES = 4
_MADE_BY = ("gymnasium", "ale_py")
"""Whose ids other packages use for environments of their own, which they do not register."""
_OF_ATARI = {
    "repeat_action_probability": 0.0,
    "full_action_space": False,
    "max_num_frames_per_episode": 108_000,
    "frameskip": 4,
    "noop_max": 30,
    "use_fire_reset": True,
}
"""Arguments of an Atari game, and their values where its id does not say others."""


def make_vector(
    env: str, envs: int, seed: int = 0, autoreset: AutoresetMode = AutoresetMode.SAME_STEP
) -> AnyVectorEnv:
    """Make ``envs`` copies of an environment as one vector environment.

    ``autoreset`` says when episodes begin anew where that is for us to say: not in a vector
    environment of the user's own or of Gymnasium's.

    ``env`` is one of

    - a Gymnasium id (``CartPole-v1``), ``module:ID`` where importing the module registers it;
      without a version the latest is meant;
    - ``vector:ID`` for the id's own vectorised implementation where it has one;
    - an Atari id (``PongNoFrameskip-v4``, ``ALE/Pong-v5``): the standard preprocessing;
    - ``module:factory``, which returns an Env or a VectorEnv and gets ``seed`` and ``num_envs`` if
      it accepts them. ``seed`` matters only there: ``Stepper.reset`` seeds the episodes.

    Any of them may have arguments, see ``artos.envs.address``.

    Raises:
        Refused: unknown name (with the closest ones), missing extra, arguments that are not
            accepted (with those that are), or a factory that fails.
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
    if is_factory(env):
        return _from_factory(env, envs, seed, autoreset)
    if is_atari(env):
        return _atari(env, envs, autoreset)
    return _registered(env, envs, autoreset)


def is_factory(env: str) -> bool:
    """Whether an address is ``module:factory`` of the user's own."""
    return bool(_FACTORY.match(parted(env)[0])) and not env.startswith(_VECTOR)


# -- Gymnasium ids -----------------------------------------------------------------------------


def _registered(env: str, envs: int, autoreset: AutoresetMode) -> AnyVectorEnv:
    name, arguments = parted(env)
    vectorised = name.startswith(_VECTOR)
    spec = _spec(name.removeprefix(_VECTOR))
    if vectorised and spec.vector_entry_point is None:
        raise Refused([f"{spec.id} has no vectorised implementation of its own: --env {spec.id}"])
    entry = spec.vector_entry_point if vectorised else spec.entry_point
    try:
        if isinstance(entry, str):
            entry = gym.envs.registration.load_env_creator(entry)
        _check(env, entry, arguments, offered=() if vectorised else _OF_MAKE)
        if vectorised:
            made: AnyVectorEnv = gym.make_vec(
                spec.id, envs, vectorization_mode="vector_entry_point", **arguments
            )
            return made
        makers = [partial(_single, spec.id, arguments)] * envs
        return SerialVectorEnv(makers, autoreset)
    except Refused:
        raise
    except Exception as error:
        missing = hints.unmade(name, spec, error)
        raise Refused([missing or f"environment {env} cannot be made: {_tail(error)}"]) from error


_OF_MAKE = ("max_episode_steps", "render_mode")
"""Arguments of ``gym.make`` itself that are of use here."""


def _single(name: str, arguments: dict[str, Any]) -> gym.Env[Any, Any]:
    made = gym.make(name, disable_env_checker=True, **arguments)
    if why := hints.many_rewards(name, made):
        made.close()
        raise Refused([why])
    return made


def _spec(name: str) -> Any:
    """What is registered under ``ID`` or ``module:ID``; without a version the latest.

    Raises:
        Refused: nothing is, or only by another package than the one that was named.
    """
    module, _, known = name.rpartition(":")
    if module:
        _module(name, module)  # importing it registers the id
    found = gym.registry.get(known) or _latest(known)
    if found is None and not module:
        with suppress(ImportError):
            importlib.import_module("ale_py")  # Gymnasium does not list its games
            found = gym.registry.get(known)
    if found is None:
        raise Refused([hints.unknown(known, module)])
    owner = hints.package_that_registers(found)
    foreign = module and owner in _MADE_BY and module.partition(".")[0] != owner
    if foreign and _registers_itself(owner, found.id):
        raise Refused(
            [
                f"environment {name}: importing {module} does not register {found.id}, which is "
                f"{owner}'s own: write --env {found.id} for that, or module:factory of your own to "
                f"make what {module} has under that name"
            ]
        )
    return found


def _latest(name: str) -> Any:
    """The newest version of an id without one; None if there is none."""
    # What ale-py registers as Pong-v4 has no preprocessing: nobody means that by Pong.
    versions = [
        spec
        for spec in gym.registry.values()
        if spec.version is not None
        and spec.id == f"{name}-v{spec.version}"
        and (is_atari(spec.id) or hints.package_that_registers(spec) != "ale_py")
    ]
    return max(versions, key=lambda spec: spec.version or 0, default=None)


def _registers_itself(owner: str, name: str) -> bool:
    """Whether an id is among those a package registers, and not one of another for its classes."""
    return owner != "gymnasium" or f'id="{name}"' in inspect.getsource(gym.envs)


def full_address(env: str) -> str:
    """The same environment with the version that is meant; as it is if it cannot be found."""
    name, arguments = parted(env)
    if is_factory(env):
        return env
    before, colon, known = name.rpartition(":")
    try:
        spec = _spec(name.removeprefix(_VECTOR))
    except Refused:
        return env  # told by whoever makes it
    return address(f"{before}{colon}{spec.id}", arguments) if spec.id != known else env


# -- Atari -------------------------------------------------------------------------------------


def is_atari(env: str) -> bool:
    """Whether an address is an Atari game, which gets the standard preprocessing."""
    name = _game(env)
    return name.startswith("ALE/") or bool(re.search(r"NoFrameskip-v\d+$", name))


def _game(env: str) -> str:
    """Vector environment or not, ours is ALE's own."""
    return parted(env)[0].removeprefix(_VECTOR).removeprefix(_ALE)


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
    arguments, registered = parted(env)[1], _spec(_game(env)).kwargs
    if unknown := arguments.keys() - _OF_ATARI.keys():
        raise Refused([_unaccepted(env, name, list(_OF_ATARI)) for name in sorted(unknown)])
    # A frame skip in the registry is that of the bare emulator, which others wrap.
    said = {n: v for n, v in registered.items() if n in _OF_ATARI and n != "frameskip"}
    try:
        made = AtariVectorEnv(
            game=registered["game"],
            num_envs=envs,
            num_threads=1,
            autoreset_mode=autoreset,
            stack_num=_FRAMES,
            reward_clipping=False,
            **(_OF_ATARI | said | arguments),
        )
    except Exception as error:
        raise Refused([f"environment {env} cannot be made: {_tail(error)}"]) from error
    made.metadata = {"autoreset_mode": autoreset, CHOSEN: True, "frame_stack": _FRAMES}
    vector: AnyVectorEnv = made
    return vector


def _refuse_hidden_rewards(env: str, made: AnyVectorEnv) -> None:
    """ALE's vector environment clips rewards unless it is told not to, and does not say so."""
    theirs = type(made.unwrapped)
    if (theirs.__module__, theirs.__name__) != ("ale_py.vector_env", "AtariVectorEnv"):
        return
    if STACK not in made.metadata:
        made.close()
        raise Refused(
            [
                f"environment {env} is ALE's vector environment, which clips rewards (returns "
                "would be those of clipped rewards) and shows whole stacks: write --env ALE/GAME-v5"
                ", for which ARTOS makes it with raw rewards and stores each frame once. If yours "
                "has reward_clipping=False, say how many frames it stacks: env.metadata = "
                "{**env.metadata, 'frame_stack': 4}"
            ]
        )


# -- the user's own ----------------------------------------------------------------------------


def _from_factory(env: str, envs: int, seed: int, autoreset: AutoresetMode) -> AnyVectorEnv:
    factory = _import(env)
    first = _call(env, factory, envs, seed)
    if is_supersuit(first):
        return AgentRows(first)
    if isinstance(first, VectorEnv):
        _refuse_hidden_rewards(env, first)
        return first
    if not isinstance(first, gym.Env):
        raise Refused([hints.not_an_environment(env, first)])
    if why := hints.many_rewards(env, first):
        first.close()
        raise Refused([why])
    rest = [partial(_call, env, factory, envs, seed + i) for i in range(1, envs)]
    return SerialVectorEnv([lambda: first, *rest], autoreset)


def _import(env: str) -> Callable[..., Any]:
    module, _, name = parted(env)[0].partition(":")
    found = getattr(_module(env, module), name, None)
    if found is None:
        raise Refused([f"environment {env}: {hints.no_factory(module, name)}"])
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
    arguments = parted(env)[1]
    _check(env, factory, arguments)
    offered = accepted(factory, {"seed": seed, "num_envs": envs})
    try:
        return factory(**(offered | arguments))
    except Exception as error:
        why = hints.lacking(error) or f"the factory failed: {_tail(error)}"
        raise Refused([f"environment {env}: {why}"]) from error


def accepted(factory: Callable[..., Any], offered: dict[str, Any]) -> dict[str, Any]:
    """What of that which is ``offered`` a factory takes."""
    names = _parameters(factory) or {}
    return {name: value for name, value in offered.items() if name in names}


def _check(
    env: str, factory: Any, arguments: dict[str, Any], offered: tuple[str, ...] = ()
) -> None:
    """Refuse arguments that a factory does not take; ``offered`` are taken in any case."""
    names = _parameters(factory)
    if names is None or any(p.kind is p.VAR_KEYWORD for p in names.values()):
        return
    known = list(dict.fromkeys((*(name for name in names if name != "self"), *offered)))
    if faults := [_unaccepted(env, name, known) for name in arguments if name not in known]:
        raise Refused(faults)


def _parameters(factory: Any) -> Mapping[str, inspect.Parameter] | None:
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return None


def _unaccepted(env: str, name: str, known: Sequence[str]) -> str:
    takes = f"it takes {', '.join(known)}" if known else "it takes none"
    return (
        f"environment {parted(env)[0]} takes no argument {name!r}{closest(name, known)} ({takes})"
    )


def _tail(error: BaseException, lines: int = 3) -> str:
    """The last lines of a traceback, enough to find the place."""
    text = "".join(traceback.format_exception(error)).strip().splitlines()
    return "\n  ".join(text[-lines:])
