"""Environments of an OpenEnv server, each a session of its own there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from artos.envs.json_values import Schema, Sizes, Value, values_of
from artos.envs.openenv_session import Answer, Session, checked_url, declared
from artos.envs.shown import at, nested
from artos.envs.spec import key_of
from artos.errors import Refused
from artos.system.closest import closest

_NO_ACTION, _NO_OBSERVATION = ("metadata",), ("metadata", "reward", "done")
"""Fields of OpenEnv's own base classes."""


def opening(url: str) -> Callable[..., gym.Env[Any, Any]]:
    """A factory of environments of the server at ``url``.

    Raises:
        Refused: it is no address of a server.
    """
    return partial(_opened, checked_url(url))


def _opened(
    url: str,
    sizes: Sizes | None = None,
    without: Sequence[str] = (),
    fixed: Mapping[str, Any] | None = None,
    reset: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    deadline: float = 60.0,
) -> gym.Env[Any, Any]:
    """One environment. Names are those of fields, after those of the objects that hold them.

    Args:
        url: The server.
        sizes: The lengths of lists and the number of choices that its schemas do not say.
        without: Fields of observations to leave out.
        fixed: Fields of actions that are always the same.
        reset: What it is told at the beginning of each episode, beside a seed.
        max_episode_steps: Steps after which an episode is truncated.
        deadline: Seconds within which it answers.

    Raises:
        Refused: an argument is none of those, or a field is of a kind that has no space.
        EnvServerFailed: it cannot be reached, or is no OpenEnv server.
        DeadlineExceeded: it does not answer.
    """
    sizes, fixed, reset = sizes or {}, fixed or {}, reset or {}
    if faults := [*_misgiven(sizes, without, fixed, reset, deadline)]:
        raise Refused([f"environment openenv:{url}: {fault}" for fault in faults])
    schemas = declared(url, deadline)
    found, unread = values_of(schemas.observation, sizes)
    shown = [v for v in found if v.path[0] not in _NO_OBSERVATION and not _among(v.name, without)]
    faults = [
        f"observations: {name} is {why} (--env-arg \"sizes={{'{name}': N}}\" where that helps, "
        f"--env-arg \"without=['{name}']\" to leave it out)"
        for name, why in unread.items()
        if name.partition(".")[0] not in _NO_OBSERVATION and not _among(name, without)
    ]
    actions, action_faults = _actions(schemas.action, sizes, fixed)
    known = {*_names(schemas.observation), *_names(schemas.action)}
    known |= {v.name for v in (*found, *actions)} | unread.keys()
    faults += action_faults
    faults += [
        f"there is no field {name!r}{closest(name, sorted(known))}"
        for name in sorted({*sizes, *without, *fixed} - known)
    ]
    if faults:
        raise Refused([f"environment openenv:{url}: {fault}" for fault in faults])
    made: gym.Env[Any, Any] = OpenEnv(Session(url, deadline), shown, actions, fixed, reset)
    return made if max_episode_steps is None else gym.wrappers.TimeLimit(made, max_episode_steps)


class OpenEnv(gym.Env[Any, Any]):
    """A session of a server, with Gymnasium's interface.

    Observations are a Dict of the fields ``shown``, actions a Discrete or a MultiDiscrete if all
    of the fields ``actions`` are choices, and a Box if all are numbers. Each episode is begun with
    a seed drawn from that of ``reset``. A reward of None is 0. An episode that the server calls
    done is terminated; it is truncated if the answer or its metadata say ``truncated``.

    Raises:
        EnvServerFailed: the server is gone, full, or answers with an error or nonsense.
        DeadlineExceeded: it does not answer.
    """

    def __init__(
        self,
        session: Session,
        shown: Sequence[Value],
        actions: Sequence[Value],
        fixed: Mapping[str, Any],
        reset: Mapping[str, Any],
    ) -> None:
        self._session, self._shown, self._actions = session, shown, actions
        self._fixed, self._reset = dict(fixed), dict(reset)
        self.observation_space = _dict_of({value.path: value.space for value in shown})
        self.action_space = _space_of(actions)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        drawn = {"seed": int(self.np_random.integers(2**31))}
        return self._seen(self._session.ask("reset", drawn | self._reset)), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Send an action."""
        flat, said, begin = np.asarray(action).reshape(-1).tolist(), {}, 0
        for value in self._actions:
            end = begin + int(np.prod(value.shape))
            said[value.path], begin = value.said(flat[begin:end]), end
        answer = self._session.ask("step", nested(said) | self._fixed)
        said_so = answer.done and (answer.metadata or {}).get("truncated") is True
        cut = answer.truncated or said_so
        return self._seen(answer), float(answer.reward or 0), answer.done and not cut, cut, {}

    def _seen(self, answer: Answer) -> Any:
        return nested(
            {
                value.path: value.shown(at(answer.observation, value.path, key_of(value.path)))
                for value in self._shown
                if value.kind != "text"
            }
        )

    def close(self) -> None:
        """End the session."""
        self._session.close()


def _misgiven(sizes: Any, without: Any, fixed: Any, reset: Any, deadline: Any) -> Iterator[str]:
    """What is wrong with arguments, whichever server they are for."""
    for name, given in (("fixed", fixed), ("reset", reset), ("sizes", sizes)):
        if not isinstance(given, Mapping) or not all(isinstance(each, str) for each in given):
            yield f"{name} is {given!r}: write a table of fields, {name}={{'FIELD': VALUE}}"
        elif name == "sizes":
            for field, size in given.items():
                each = size if isinstance(size, list | tuple) else [size]
                if not each or not all(type(n) is int and n > 0 for n in each):
                    yield f"sizes: {field} is {size!r}: write a number above 0, or a list of them"
    if not isinstance(without, list | tuple) or not all(isinstance(each, str) for each in without):
        yield f"without is {without!r}: write a list of fields, without=['FIELD']"
    if isinstance(deadline, bool) or not isinstance(deadline, int | float) or deadline <= 0:
        yield f"deadline is {deadline!r}: write a number of seconds above 0"


def _among(name: str, fields: Sequence[str]) -> bool:
    """Whether a field, or an object that holds it, is one of these."""
    return any(name == each or name.startswith(f"{each}.") for each in fields)


def _names(schema: Schema) -> set[str]:
    fields = schema.get("properties")
    return {*fields} if isinstance(fields, Mapping) else set()


def _actions(
    schema: Schema, sizes: Sizes, fixed: Mapping[str, Any]
) -> tuple[list[Value], list[str]]:
    """The fields of an action that are chosen, and why others cannot be.

    What has no space and is not required is left to the server.
    """
    found, unread = values_of(schema, sizes)
    required = schema.get("required", ())
    chosen, whys = list[Value](), dict[str, str]()
    for value in found:
        if value.kind == "text":
            whys[value.name] = "a text, which no network here writes"
            continue
        try:
            chosen.append(value.chosen())
        except TypeError as error:
            whys[value.name] = str(error)
    decided = {*_NO_ACTION, *fixed}
    chosen = [value for value in chosen if value.path[0] not in decided]
    faults = [
        f"actions: {name} is {why} (--env-arg \"sizes={{'{name}': N}}\" where that helps, "
        f"--env-arg \"fixed={{'{name.partition('.')[0]}': VALUE}}\" to send always the same)"
        for name, why in (unread | whys).items()
        if (top := name.partition(".")[0]) not in decided and top in required
    ]
    if faults:
        return chosen, faults
    if not chosen:
        return chosen, ["actions have no field that can be chosen"]
    kinds: dict[str, list[str]] = {}
    for value in chosen:
        kinds.setdefault(value.kind, []).append(value.name)
    if len(kinds) > 1:
        return chosen, [
            f"actions: {', '.join(kinds['choice'])} are choices and {', '.join(kinds['number'])} "
            "are numbers, and no algorithm here chooses both together: --env-arg "
            "\"fixed={'FIELD': VALUE}\" for those of one kind"
        ]
    return chosen, []


def _space_of(actions: Sequence[Value]) -> gym.Space[Any]:
    """One space for the fields of an action, of which all are choices or all numbers."""
    if len(actions) == 1 and (not actions[0].shape or actions[0].kind == "number"):
        return actions[0].space
    if actions[0].kind == "choice":
        sizes = [np.full(v.shape, len(v.choices)).reshape(-1) for v in actions]
        return spaces.MultiDiscrete(np.concatenate(sizes))
    low, high = (
        np.concatenate([np.full(v.shape, getattr(v, end), np.float32).reshape(-1) for v in actions])
        for end in ("low", "high")
    )
    return spaces.Box(low, high, dtype=np.float32)


def _dict_of(inside: Mapping[Any, gym.Space[Any]]) -> spaces.Dict:
    """Spaces by path as Dicts within a Dict."""
    whole: dict[str, Any] = nested(inside)
    return spaces.Dict(
        {
            name: _dict_of({(key,): each for key, each in found.items()})
            if isinstance(found, dict)
            else found
            for name, found in whole.items()
        }
    )
