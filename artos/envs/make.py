"""Environments by name: Gymnasium ids, Atari ids, and factories in the user's own folder."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import msgspec
from gymnasium.vector import AutoresetMode, VectorEnv

from artos.envs import hints, stacks
from artos.envs.agents import AgentRows, is_supersuit
from artos.envs.alike import difference
from artos.envs.components import components_of, weighed
from artos.envs.games import GameRows, Games, is_game
from artos.envs.serial import SerialVectorEnv
from artos.envs.settable import settable_of
from artos.envs.spec import ATARI, CHOSEN, STACK, EnvSpec, spec_of
from artos.envs.trial import try_out
from artos.envs.turns import InTurns, is_in_turns
from artos.envs.wrappers import Wrap, wrapped, wrappers_of
from artos.errors import ArtosError, Refused
from artos.specs.address import address, parted
from artos.specs.named import GAMES, VECTOR, WRAPPERS
from artos.system.closest import closest
from artos.system.importing import users_module
from artos.system.under_way import under_way

AnyVectorEnv = VectorEnv[Any, Any, Any]

_FACTORY = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
_ALE = "ale_py:"
_SERVERS, _POOLS = "openenv:", "envpool:"
ONLY = "only"
"""The argument of a game's address that names the agents that are played; others do anything."""
_FRAMES = 4
_MADE_BY = ("gymnasium", "ale_py")
"""Packages whose ids others use for environments of their own, which they do not register."""
_OF_ATARI = {
    "repeat_action_probability": 0.0,
    "full_action_space": False,
    "max_num_frames_per_episode": 108_000,
    "frameskip": 4,
    "noop_max": 30,
    "use_fire_reset": True,
}
"""Arguments of an Atari game, and their values unless its id says others."""

gym.register(
    "ReverseText-v0",
    entry_point="artos.envs.reverse:Reverse",
    order_enforce=False,
    disable_env_checker=True,
)


def make_vector(
    env: str, envs: int, seed: int = 0, autoreset: AutoresetMode = AutoresetMode.SAME_STEP
) -> AnyVectorEnv:
    """Make ``envs`` copies of an environment as one vector environment.

    ``autoreset`` says when ended episodes are reset, where that is ours to decide: it is not in a
    vector environment of the user's own or of Gymnasium's.

    ``env`` is one of

    - a Gymnasium id (``CartPole-v1``), without a version the latest; ``module:ID`` with its version
      where importing the module registers it;
    - ``vector:ID`` for the id's own vectorised implementation where it has one;
    - an Atari id (``PongNoFrameskip-v4``, ``ALE/Pong-v5``): the standard preprocessing;
    - ``pettingzoo:MODULE`` (``pettingzoo:classic.rps_v2``, or a module of your own with a function
      ``parallel_env``, or ``env`` for a game in turns): a row for each agent of the game;
    - ``openenv:URL`` (``openenv:ws://127.0.0.1:8000``): a session of an OpenEnv server;
    - ``envpool:ID`` (``envpool:Pong-v5``): a pool of EnvPool's;
    - ``module:factory``, which returns an Env or a VectorEnv and gets ``seed`` and ``num_envs`` if
      it accepts them. ``seed`` matters only there: ``Stepper.reset`` seeds the episodes.

    Any of them may have arguments (``artos.specs.address``).

    Raises:
        Refused: the name is unknown (with the closest ones), an extra is missing, arguments are not
            accepted (with those that are), or the factory fails.
    """
    made = open_vector(env, envs, seed, autoreset)
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
    """Describe an environment as plain data; makes it, resets and steps it, and closes it.

    Raises:
        Refused: it cannot be made, its spaces cannot be stored, or it returns something other than
            they say.
    """
    with under_way(f"environment {env}", "being made"):
        made = open_vector(env, 1)
    try:
        spec = spec_of(env, made)
        if is_atari(env):
            return spec
        masks, shown = try_out(env, made, spec)
        # What differs between two that are made in the same way.
        with under_way(f"environment {env}", "being made"):
            other = open_vector(env, 1)
        try:
            also = try_out(env, other, spec).shown
            unlike = difference(made, other, "env") or difference(shown, also, "what it shows")
        finally:
            other.close()
        stacks.declare(made, masked=masks is not None)
        spec = msgspec.structs.replace(
            spec_of(env, made), unlike=unlike, settable=settable_of(env, made)
        )
        return spec if masks is None else spec.masked_by_info(masks)
    except Refused:
        raise
    except ArtosError as error:
        raise Refused([f"environment {env}: {error}"]) from error
    except Exception as error:
        raise Refused([f"environment {env} fails: {_tail(error)}"]) from error
    finally:
        made.close()


def open_vector(
    env: str, envs: int, seed: int = 0, autoreset: AutoresetMode = AutoresetMode.SAME_STEP
) -> AnyVectorEnv:
    """As ``make_vector``, but a factory may make another number of environments than ``envs``."""
    if is_factory(env):
        return _from_factory(env, envs, seed, autoreset)
    if is_atari(env):
        return _atari(env, envs, autoreset)
    return _registered(env, envs, autoreset)


class Layers(NamedTuple):
    """What an address says is put around each environment."""

    wrappers: tuple[Wrap, ...] = ()
    components: Mapping[str, float] = {}

    def around(self, env: str, made: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """The environment in its wrappers, with one reward.

        Raises:
            Refused: a wrapper fails, or rewards are not as they are named; it is closed then.
        """
        return weighed(env, wrapped(env, made, self.wrappers, factory_of), self.components)


def layers_of(env: str) -> tuple[str, Layers]:
    """The address of the environment itself, and what is put around it.

    Raises:
        Refused: that is not named as it has to be.
    """
    takes = _parameters(factory_of(env)) if is_factory(env) else None
    env, wrappers = (env, ()) if WRAPPERS in (takes or ()) else wrappers_of(env)
    env, components = components_of(env)
    return env, Layers(wrappers, components)


def is_factory(env: str) -> bool:
    """Whether an address is ``module:factory`` of the user's own, or of others by their ids."""
    if env.startswith((GAMES, _SERVERS, _POOLS)):
        return True
    return bool(_FACTORY.match(parted(env)[0])) and not env.startswith(VECTOR)


# -- Gymnasium ids -----------------------------------------------------------------------------


def _registered(env: str, envs: int, autoreset: AutoresetMode) -> AnyVectorEnv:
    env, layers = layers_of(env)
    name, arguments = parted(env)
    vectorised = name.startswith(VECTOR)
    if vectorised and any(layers):
        raise Refused([_ALONE.format(env)])
    spec = _spec(name.removeprefix(VECTOR))
    if vectorised and spec.vector_entry_point is None:
        raise Refused([f"{spec.id} has no vectorised implementation of its own: --env {spec.id}"])
    entry = spec.vector_entry_point if vectorised else spec.entry_point

    def single() -> gym.Env[Any, Any]:
        one = gym.make(spec.id, disable_env_checker=True, **arguments)
        return layers.around(spec.id, one)

    try:
        if isinstance(entry, str):
            entry = gym.envs.registration.load_env_creator(entry)
        _check(env, entry, arguments, offered=() if vectorised else _OF_MAKE)
        if vectorised:
            made: AnyVectorEnv = gym.make_vec(
                spec.id, envs, vectorization_mode="vector_entry_point", **arguments
            )
            return made
        return SerialVectorEnv([single] * envs, autoreset)
    except Refused:
        raise
    except Exception as error:
        missing = hints.unmade(name, spec, error)
        raise Refused([missing or f"environment {env} cannot be made: {_tail(error)}"]) from error


_ALONE = "environment {}: wrappers and components are those of single environments: leave them out"
_OF_MAKE = ("max_episode_steps", "render_mode")
"""Arguments of ``gym.make`` itself that are of use here."""


def _spec(name: str) -> Any:
    """What is registered under ``ID`` or ``module:ID``; without a version the latest.

    Raises:
        Refused: nothing is, or only by a package other than the one that was named.
    """
    module, _, known = name.rpartition(":")
    if module:
        _module(name, module)  # importing it registers the id
    if (found := gym.registry.get(known)) is None:
        # What ale-py registers as Pong-v4 has no preprocessing: that is not what Pong means.
        versions = [
            spec
            for spec in gym.registry.values()
            if spec.version is not None
            and spec.id == f"{known}-v{spec.version}"
            and (is_atari(spec.id) or hints.package_that_registers(spec) != "ale_py")
        ]
        found = max(versions, key=lambda spec: spec.version or 0, default=None)
    if found is None and not module:
        with suppress(ImportError):
            importlib.import_module("ale_py")  # Gymnasium does not list its games
            found = gym.registry.get(known)
    if found is None:
        raise Refused([hints.unknown(known, module)])
    owner = hints.package_that_registers(found)
    foreign = module and owner in _MADE_BY and module.partition(".")[0] != owner
    # Other packages register ids with classes of Gymnasium's, which its own source does not have.
    if foreign and (owner != "gymnasium" or f'id="{found.id}"' in inspect.getsource(gym.envs)):
        raise Refused(
            [
                f"environment {name}: importing {module} does not register {found.id}, which is "
                f"{owner}'s own: write --env {found.id} for that, or module:factory of your own to "
                f"make what {module} has under that name"
            ]
        )
    return found


def full_address(env: str) -> str:
    """The same environment with the version that is meant; unchanged if it cannot be found."""
    name, arguments = parted(env)
    if is_factory(env):
        return env
    before, colon, known = name.rpartition(":")
    try:
        spec = _spec(name.removeprefix(VECTOR))
    except Refused:
        return env  # making it says why
    return address(f"{before}{colon}{spec.id}", arguments) if spec.id != known else env


# -- Atari -------------------------------------------------------------------------------------


def is_atari(env: str) -> bool:
    """Whether an address is an Atari game, which has the standard preprocessing."""
    name = _game(env)
    return name.startswith("ALE/") or bool(re.search(r"NoFrameskip-v\d+$", name))


def _game(env: str) -> str:
    """The game's id, with or without ``vector:``: ours is ALE's own vector environment anyway."""
    return parted(env)[0].removeprefix(VECTOR).removeprefix(_ALE)


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
    # A frame skip in the registry is for the bare emulator, which others wrap.
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
    made.metadata = {"autoreset_mode": autoreset, CHOSEN: True, ATARI: True, STACK: _FRAMES}
    vector: AnyVectorEnv = made
    return vector


# -- the user's own ----------------------------------------------------------------------------


def _from_factory(env: str, envs: int, seed: int, autoreset: AutoresetMode) -> AnyVectorEnv:
    asked, layers = layers_of(env)
    env, only = selection(asked)
    factory = factory_of(env)
    first = _call(env, factory, envs, seed)
    many = is_supersuit(first) or isinstance(first, VectorEnv) or is_game(first)
    if many and any(layers):
        first.close()
        raise Refused([_ALONE.format(env)])
    if is_supersuit(first):
        return AgentRows(first)
    if isinstance(first, VectorEnv):
        theirs = type(first.unwrapped)
        is_ale = (theirs.__module__, theirs.__name__) == ("ale_py.vector_env", "AtariVectorEnv")
        if is_ale and STACK not in first.metadata:  # it does not say whether it clips rewards
            first.close()
            raise Refused(
                [
                    f"environment {env} is ALE's vector environment, which clips rewards (returns "
                    "would be those of clipped rewards) and shows whole stacks: write --env "
                    "ALE/GAME-v5, for which ARTOS makes it with raw rewards and stores each frame "
                    "once. If yours has reward_clipping=False, say how many frames it stacks: "
                    "env.metadata = {**env.metadata, 'frame_stack': 4}"
                ]
            )
        return first
    if is_game(first):
        more = range(1, max(1, envs // max(1, len(only or first.possible_agents))))
        games = [first, *(_call(env, factory, envs, seed + i) for i in more)]
        return GameRows(asked, games, only)
    if only:
        raise Refused([f"environment {asked}: it is no game of agents: leave {ONLY} out"])
    if not isinstance(first, gym.Env):
        raise Refused([hints.not_an_environment(env, first)])
    first = layers.around(env, first)

    def another(number: int) -> gym.Env[Any, Any]:
        return layers.around(env, _call(env, factory, envs, seed + number))

    rest = [partial(another, number) for number in range(1, envs)]
    return SerialVectorEnv([lambda: first, *rest], autoreset)


def selection(env: str) -> tuple[str, tuple[str, ...]]:
    """The address of a game, and the agents of it that are played; all if there are none.

    Raises:
        Refused: they are no names.
    """
    name, arguments = parted(env)
    if ONLY not in arguments:
        return env, ()
    only = arguments.pop(ONLY)
    if not isinstance(only, list | tuple) or not all(isinstance(each, str) for each in only):
        raise Refused([f"environment {env}: {ONLY} lists names of agents, e.g. ['player_0']"])
    return address(name, arguments), tuple(only)


def games_of(env: str, number: int, seed: int = 0) -> Games:
    """So many games of several agents.

    Raises:
        Refused: the address is not that of a game, or it cannot be made.
    """
    env, layers = layers_of(env)
    if any(layers):
        raise Refused([_ALONE.format(env)])
    factory, envs = factory_of(env) if is_factory(env) else None, number
    first = _call(env, factory, envs, seed) if factory else None
    if factory is None or not is_game(first):
        if first is not None:
            first.close()
        raise Refused([f"environment {env}: {_NO_GAME}"])
    return Games([first, *(_call(env, factory, envs, seed + i) for i in range(1, number))])


_NO_GAME = (
    "it has no agents that several policies could play: name a game in PettingZoo's parallel form "
    "(--env pettingzoo:MODULE, or module:factory), or leave agents out"
)


def factory_of(env: str) -> Callable[..., Any]:
    """The factory that an address names, imported.

    Raises:
        Refused: it cannot be imported, or is not a function, or names no server or pool.
    """
    if env.startswith(_SERVERS):
        try:
            from artos.envs.openenv import opening  # noqa: PLC0415 (an extra)
        except ImportError as error:
            raise Refused(
                [f"environment {env} needs the OpenEnv extra: pip install 'artos[openenv]'"]
            ) from error
        return opening(parted(env)[0].removeprefix(_SERVERS))
    if env.startswith(_POOLS):
        try:
            from artos.envs.envpool import pooling  # noqa: PLC0415 (a package of the user's)
        except ImportError as error:
            raise Refused([f"environment {env} needs EnvPool: pip install envpool"]) from error
        return pooling(parted(env)[0].removeprefix(_POOLS))
    module, _, name = parted(env)[0].partition(":")
    if f"{module}:" == GAMES:
        package, module, name = module, name, "parallel_env"
        try:
            there = importlib.util.find_spec(f"{package}.{module}") is not None
        except ModuleNotFoundError:
            there = False
        except ImportError:  # it was there once, and importing it says where it has gone
            there = True
        module = f"{package}.{module}" if there else module  # or it is one of the user's own
    found = getattr(_module(env, module), name, None)
    if found is None and name == "parallel_env":
        found = getattr(_module(env, module), "env", None)  # a game in turns
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
        return users_module(module)
    except Exception as error:
        if module.endswith(".py"):
            why = f"write the module's name, {module.removesuffix('.py')}, without .py"
        elif isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            nor = hints.package_of(module)
            if env.startswith(GAMES):
                nor = " or in PettingZoo, if that is installed (pip install pettingzoo)"
            why = f"there is no module {error.name} in this folder{nor}"
        elif isinstance(error, ModuleNotFoundError):
            why = hints.lacks_module(module, error.name or "")
        else:
            why = f"{module} cannot be imported: {_tail(error)}"
        raise Refused([f"environment {env}: {why}"]) from error


def _call(env: str, factory: Callable[..., Any], envs: int, seed: int) -> Any:
    arguments = parted(env)[1]
    _check(env, factory, arguments)
    offered = accepted(factory, {"seed": seed, "num_envs": envs})
    try:
        made = factory(**(offered | arguments))
        return InTurns(made) if is_in_turns(made) else made
    except Refused:
        raise
    except ArtosError as error:
        raise Refused([f"environment {env}: {error}"]) from error
    except Exception as error:
        why = hints.lacking(error) or f"the factory failed: {_tail(error)}"
        raise Refused([f"environment {env}: {why}"]) from error


def accepted(factory: Callable[..., Any], offered: dict[str, Any]) -> dict[str, Any]:
    """Those of the ``offered`` arguments that a factory takes."""
    names = _parameters(factory) or {}
    return {name: value for name, value in offered.items() if name in names}


def _check(
    env: str, factory: Any, arguments: dict[str, Any], offered: tuple[str, ...] = ()
) -> None:
    """Refuse arguments that a factory does not take; those ``offered`` are always taken."""
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
