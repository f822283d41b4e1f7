"""Tries an environment out, for ``artos check``, in a process of its own.

``python -P -m artos.runtime.examination ENV SECONDS`` writes lines of JSON to standard output: a
text for each thing that it begins to do, and in the end an ``Examination``, or the list of faults.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from artos.envs.make import describe, full_address, make_vector, open_vector
from artos.envs.masks import ActionMasks
from artos.envs.notes import address_notes
from artos.envs.serial import SerialVectorEnv
from artos.envs.spec import MASK, EnvSpec
from artos.envs.stepper import Parts, Stepper, action_writer
from artos.envs.trial import anything
from artos.errors import ArtosError, Refused
from artos.specs.keys import MASK_KEY
from artos.system.child import end_with_parent

_STEPS = 200
"""At most this many steps of two episodes with the same seed and actions are compared."""
_DISTINCT, _FEW = 0.9, 4096
"""The share of numbers that must stay distinct, in arrays of at most this many elements."""

Note = Callable[[str], None]


class Examination(msgspec.Struct, frozen=True):
    """What an environment shows and takes, and how it behaves."""

    spec: EnvSpec
    networks: dict[str, str]
    """The network that reads each part, by data key."""
    own_resets: str
    """When a vector environment that resets itself does so; empty if ARTOS decides that."""
    differs: str
    """Where two episodes with the same seed and actions first differ; empty if they do not."""
    compared: int
    """How many of their steps were compared."""
    reuses: tuple[str, ...]
    """Data keys whose array is returned again in the next step."""
    keeps_actions: bool | None
    """Whether it holds on to the arrays that it is given.

    None: that is unknown, as a vector environment's actions are numbers or pass through others.
    """
    bare: float
    """Steps a second of one environment alone."""
    stepped: float
    """Steps a second through ``Stepper``."""
    rounded: dict[str, str]
    """Data keys with numbers that float32, in which networks compute, does not tell apart."""
    notes: tuple[str, ...]
    """What else is odd."""


def examine(env: str, seconds: float, note: Note = lambda doing: None) -> Examination:
    """Try an environment out; each of the loops takes at most ``seconds``.

    Raises:
        Refused: it cannot be used, with all reasons.
    """
    note("making the environment, and its first steps")
    asked, env = env, full_address(env)
    spec = describe(env)
    note("comparing episodes with the same seed and actions")
    differs, compared = _first_difference(env, spec, seconds)
    note("stepping it without ARTOS")
    bare, reuses, keeps, seen = _bare(env, spec, seconds)
    note("stepping it as actors do")
    from artos.policies.inputs import doubt, words  # noqa: PLC0415  # torch takes a second

    doubts = [doubt(part, cnn=True, scaled=False) for part in spec.features]
    return Examination(
        spec=spec,
        networks={part.name: words(part, cnn=True, scaled=False) for part in spec.features},
        own_resets="" if spec.chosen else spec.autoreset,
        differs=differs,
        compared=compared,
        reuses=reuses,
        keeps_actions=keeps,
        bare=bare,
        stepped=_stepped(env, spec, seconds),
        rounded=dict(_rounded(seen, [part.name for part in spec.features if not part.sizes])),
        notes=(*address_notes(asked, env), *filter(None, doubts), *_beyond(seen, spec)),
    )


def _stepper(env: str, spec: EnvSpec, seed: int) -> Stepper:
    made = make_vector(env, 1, seed) if spec.chosen else open_vector(env, 1)
    if spec.parts[0].stack > 1:
        made.metadata = {
            **made.metadata,
            "frame_stack": spec.parts[0].stack,
            "frame_padding": spec.parts[0].padding,
        }
    return Stepper(made, env, masked=spec.masked == "info")


def _episode(stepper: Stepper, seconds: float) -> Iterator[Parts]:
    """Copies of what a fixed seed and fixed actions lead to, step after step."""
    rng = np.random.default_rng(0)
    masks = ActionMasks(stepper.spec, stepper.envs) if stepper.spec.masked else None
    obs = stepper.reset(7)
    yield {name: part.copy() for name, part in obs.items()}
    until = time.perf_counter() + seconds
    for number in range(_STEPS):
        if number and time.perf_counter() > until:
            return
        step = stepper.step(
            anything(stepper.spec.actions, stepper.envs, rng)
            if masks is None
            else masks.first(obs[MASK_KEY])
        )
        obs = step.obs
        results = {n: getattr(step, n) for n in ("rewards", "terminations", "truncations")}
        yield {name: np.array(part) for name, part in (obs | results).items()}


def _first_difference(env: str, spec: EnvSpec, seconds: float) -> tuple[str, int]:
    """Where episodes of one environment, and of another made in the same way, first differ.

    Also how many steps were compared.
    """
    first, second = _stepper(env, spec, 0), _stepper(env, spec, 0)
    try:
        wanted = list(_episode(first, seconds))
        for who, stepper in (("reset again", first), ("made again", second)):
            for number, (a, b) in enumerate(zip(wanted, _episode(stepper, seconds), strict=False)):
                if bad := [n for n in a if not np.array_equal(a[n], b[n], equal_nan=True)]:
                    return f"{who}, {', '.join(bad)} differ after {number} steps", number
        return "", len(wanted) - 1
    finally:
        first.close()
        second.close()


def _bare(
    env: str, spec: EnvSpec, seconds: float
) -> tuple[float, tuple[str, ...], bool | None, list[Parts]]:
    """Steps a second without ARTOS, arrays that are returned twice, whether actions are kept.

    The last one is a list of observations, step after step.
    """
    made = open_vector(env, 1)
    single = made.envs[0] if isinstance(made, SerialVectorEnv) else None
    waits = made.metadata.get("autoreset_mode") is AutoresetMode.DISABLED
    try:
        target: Any = made if single is None else single
        choose = _chooser(target, spec, made.num_envs if single is None else 0)
        obs, info = target.reset(seed=0)
        before = _arrays(obs)
        action = choose(obs, info)
        held = sys.getrefcount(action)
        obs, *_ = found = target.step(action)
        del found
        keeps = sys.getrefcount(action) > held if isinstance(action, np.ndarray) else None
        now = _arrays(obs)
        reuses = tuple(n for n in now if n in before and np.shares_memory(now[n], before[n]))
        restarts = single is not None or waits
        taken = [took for _, took in _walk(target, choose, single is None, restarts, seconds)]
        walk = islice(_walk(target, choose, single is None, restarts, seconds), _STEPS)
        seen = [{n: np.copy(array) for n, array in _arrays(obs).items()} for obs, _ in walk]
        rate = len(taken) * made.num_envs / sum(taken)
        return rate, reuses, keeps if single is not None else None, seen
    finally:
        made.close()


def _walk(
    target: Any, choose: Callable[[Any, dict[str, Any]], Any], many: bool, restarts: bool,
    seconds: float,
) -> Iterator[tuple[Any, float]]:  # fmt: skip
    """Observations, and the seconds that each step took, including the reset of ended episodes."""
    obs, info = target.reset(seed=0)
    until = time.perf_counter() + seconds
    while True:
        action, begun = choose(obs, info), time.perf_counter()
        obs, _, terminated, truncated, info = target.step(action)
        over, shown = np.asarray(terminated, bool) | np.asarray(truncated, bool), obs
        if restarts and over.any():
            obs, info = target.reset(options={"reset_mask": over} if many else None)
        yield shown, (now := time.perf_counter()) - begun
        if now > until:
            return


def _rounded(seen: Sequence[Parts], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Parts in which float32 makes a tenth of the distinct numbers, or more, equal to others."""
    for name in names:
        if name not in seen[0]:
            continue
        dtype, size = seen[0][name].dtype, seen[0][name].size
        if size > _FEW or dtype.itemsize < 4 or dtype == np.float32:
            continue
        columns = np.stack([each[name].reshape(-1) for each in seen]).T
        for place, column in enumerate(columns):
            exact, left = (len(np.unique(each)) for each in (column, column.astype(np.float32)))
            if left < _DISTINCT * exact:
                yield name, f"{exact} different ones are {left} at [{place}]"
                break


def _beyond(seen: Sequence[Parts], spec: EnvSpec) -> Iterator[str]:
    """Which parts go beyond the bounds that their space declares."""
    for part in spec.features:
        if part.sizes or part.name not in seen[0]:
            continue
        least = min(float(each[part.name].min()) for each in seen)
        most = max(float(each[part.name].max()) for each in seen)
        slack = 1e-5 * max(1.0, abs(part.low or 0.0), abs(part.high or 0.0))  # of rounding
        below = part.low is not None and least < part.low - slack
        if below or (part.high is not None and most > part.high + slack):
            found = f"{least if below else most:g}"
            yield f"{part.name} shows {found}, beyond what its space says: repair its bounds"


def _chooser(target: Any, spec: EnvSpec, envs: int) -> Callable[[Any, dict[str, Any]], Any]:
    """A function that chooses actions: random or, with masks, allowed ones.

    With ``envs`` 0 it is for a single environment.
    """
    single_space = target.single_action_space if envs else target.action_space
    if not spec.masked:
        space = batch_space(single_space, envs) if envs else single_space
        space.seed(0)
        return lambda obs, info: space.sample()
    masks, to_env = ActionMasks(spec, max(1, envs)), action_writer(spec.actions)

    def allowed(obs: Any, info: dict[str, Any]) -> Any:
        told = {MASK: obs[MASK]} if spec.masked == "observation" else info
        mask = masks.flags(masks.said(told))
        masks.open(mask)
        actions = to_env(masks.first(mask))
        return actions if envs else actions[0]

    return allowed


def _arrays(obs: Any, path: str = "observations") -> dict[str, NDArray[Any]]:
    """The arrays of an observation, by data key."""
    if isinstance(obs, dict | tuple):
        inside = obs.items() if isinstance(obs, dict) else enumerate(obs)
        parts = [_arrays(part, f"{path}.{name}") for name, part in inside]
        return {name: array for each in parts for name, array in each.items()}
    return {path: obs} if isinstance(obs, np.ndarray) else {}


def _stepped(env: str, spec: EnvSpec, seconds: float) -> float:
    stepper, rng = _stepper(env, spec, 0), np.random.default_rng(0)
    masks = ActionMasks(stepper.spec, stepper.envs) if stepper.spec.masked else None
    try:
        actions = [anything(spec.actions, stepper.envs, rng) for _ in range(_STEPS)]
        obs, count, begun = stepper.reset(0), 0, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            obs = stepper.step(
                actions[count % _STEPS] if masks is None else masks.first(obs[MASK_KEY])
            ).obs
            count += 1
        return count * stepper.envs / (time.perf_counter() - begun)
    finally:
        stepper.close()


def main() -> int:
    """Examine what the command line names."""
    end_with_parent()
    answer = os.dup(1)
    os.dup2(2, 1)  # C code prints too, and must not mix with the answer
    env, seconds = sys.argv[1], float(sys.argv[2])
    with os.fdopen(answer, "wb") as out:

        def tell(what: Any) -> None:
            out.write(msgspec.json.encode(what) + b"\n")
            out.flush()

        try:
            tell(examine(env, seconds, tell))
        except Refused as refused:
            tell(refused.faults)
        except ArtosError as error:
            tell([f"environment {env}: {error}"])
        except Exception as error:
            tell([f"environment {env} fails: {type(error).__name__}: {error}"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
