"""Steps a vector environment in the same way in every autoreset mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from artos.envs.environment_state import environment_state, set_environment_state
from artos.envs.masks import ActionMasks
from artos.envs.serial import SerialVectorEnv
from artos.envs.settable import Setter
from artos.envs.shown import Mismatch, Stored, at, column, five_of, pair_of, require_finite
from artos.envs.spec import ABSENT, COMPONENTS, MASK, ActionSpec, EnvSpec, parts_of, spec_of
from artos.errors import BadRow, NotBranched, Refused
from artos.specs.keys import MASK_KEY, OBSERVATIONS

Array = NDArray[Any]
Parts = dict[str, Array]
Flags = NDArray[np.bool_]

_OLDEST = 255
_FLOATS, _FLAGS = np.dtype(np.float64), np.dtype(bool)
_KEPT = (
    "ages", "_returns", "_lengths", "_resetting", "_lives", "_done_returns", "_done_lengths",
    "configurations", "begun", "_number", "_wanted", "_seeded", "_done_configurations", "rows",
    "_done_rows",
)  # fmt: skip


class Step(msgspec.Struct, gc=False):
    """What one step of E environments led to. Arrays are valid until the next step."""

    obs: Parts
    """Data key → (E, …): what to act on next."""
    rewards: Array
    """(E,), clipped if that was asked for."""
    terminations: Flags
    """(E,)."""
    truncations: Flags
    """(E,)."""
    valid: Flags
    """(E,), False where this row was only a reset."""
    ended: NDArray[np.int64] | None = None
    """Which environments finished an episode that can be bootstrapped, (k,); None if none did."""
    components: Array | None = None
    """(E, k) float32, the several rewards of which ``rewards`` is the sum; None if it is one."""
    final: Parts | None = None
    """Their last observations, data key → (k, …); None if none did."""


class Stepper:
    """Steps a vector environment in the same way in every autoreset mode.

    Handles NEXT_STEP (after an episode ended one row is only the reset: ``valid`` is False),
    SAME_STEP and DISABLED (resets by mask, in the same step or in the next as ``autoreset`` says).
    In the next step a DISABLED environment is reset twice, and what it does in between is dropped:
    all of its environments step together, and none may step beyond its end.

    Args:
        env: any Gymnasium vector environment.
        name: its name in messages.
        clip_rewards: clip rewards to −1 … 1 (episode returns stay raw).
        terminal_lives: a lost life terminates for the learner while the game goes on.
        autoreset: when to reset an environment that does not reset itself.
        masked: ``info`` masks actions, and the mask becomes part of the observations.

    Raises:
        Refused: its spaces cannot be stored, or its autoreset mode is unknown.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        name: str = "environment",
        *,
        clip_rewards: bool = False,
        terminal_lives: bool = False,
        autoreset: AutoresetMode = AutoresetMode.SAME_STEP,
        masked: bool = False,
    ) -> None:
        said = env.metadata.get("autoreset_mode")
        try:
            mode = AutoresetMode(said)
        except ValueError as error:
            known = ", ".join(f"AutoresetMode.{each.name}" for each in AutoresetMode)
            raise Refused(
                [f"environment {name}: metadata['autoreset_mode'] is {said!r}; set one of {known}"]
            ) from error
        self.env, self.envs = env, env.num_envs
        self.spec: EnvSpec = spec_of(name, env)
        self._masks = mode is AutoresetMode.DISABLED
        self._checked = type(env) is SerialVectorEnv  # which has checked each environment's arrays
        if self._masks:
            self.spec = self.spec.resetting(autoreset)
        if masked:
            self.spec = self.spec.masked_by_info()
        self._allowed = ActionMasks(self.spec, self.envs) if self.spec.masked else None
        self._waits = self.spec.skips_rows
        self._number, self._wanted, self._setter = 0, dict[str, Any](), Setter(env)
        self._seeded: tuple[int | None, int] | None = None
        self.actor = self.step_number = 0  # for error messages only
        self._clip, self._terminal_lives = clip_rewards, terminal_lives
        self._stored = [
            (path, stored)
            for path, stored in parts_of(env.single_observation_space, Stored)
            if path != (MASK,)
        ]
        self.to_env = action_writer(self.spec.actions)
        """Makes stored actions (E, …) what the environment takes."""
        self._all_valid = np.ones(self.envs, bool)
        self._all_valid.flags.writeable = False
        self._begin_episodes()
        self.begun: tuple[int, ...] = ()
        """In which configuration each episode drained last began; empty: all in 0."""
        self.rows: tuple[int, ...] = ()
        """Which environment each of them was of."""
        self.totals: list[float] = []
        """Raw returns of the episodes that ended last, in the order of that step's ``ended``."""

    def snapshot(self) -> dict[str, Any]:
        """The state of the environments, and of their current episodes."""
        return {"env": environment_state(self.env), **{name: getattr(self, name) for name in _KEPT}}

    def go_on(self, taken: dict[str, Any]) -> None:
        """Go on with the episodes of a ``snapshot``."""
        set_environment_state(self.env, taken["env"])
        for name in _KEPT:
            setattr(self, name, taken[name])

    def _begin_episodes(self) -> None:
        # Steps since the episode of the current observation began, up to 255.
        self.ages = np.zeros(self.envs, np.uint8)
        # That in which the present episode of each environment began.
        self.configurations = np.full(self.envs, self._number, np.int32)
        self._returns, self._lengths = np.zeros(self.envs), np.zeros(self.envs, np.int64)
        self._resetting = np.zeros(self.envs, bool)
        self._lives: Array | None = None
        self._done_returns: list[float] = []
        self._done_lengths: list[int] = []
        self._done_configurations: list[int] = []
        self._done_rows: list[int] = []

    def configure(self, values: Mapping[str, Any], number: int) -> Parts | None:
        """Set ``values`` from the next episode of each environment on, as configuration ``number``.

        Environments that have not been stepped begin anew, with the same seeds; returns what they
        show then.
        """
        self._number, self._wanted = number, dict(values)
        self._setter.want(self._wanted)
        return None if self._seeded is None else self.reset(*self._seeded)

    def reset(self, seed: int | None = None, alike: int = 1) -> Parts:
        """Reset with seeds ``seed … seed + E - 1``, kept below 2³¹ as emulators need.

        Of every ``alike`` neighbours all have one seed. Returns the first observations, data key →
        (E, …).

        Raises:
            BadRow: they are not what the environment's space says.
        """
        self._begin_episodes()
        self._seeded = (seed, alike)
        self._begin(np.ones(self.envs, bool))
        seed = None if seed is None else seed % (2**31 - self.envs)
        seeds: Any = seed
        if seed is not None and alike > 1:
            seeds = [seed + i // alike for i in range(self.envs)]
        try:
            obs, info = pair_of(self.env.reset(seed=seeds))
            self._lives = np.array(info["lives"]) if "lives" in info else None
            if ABSENT in info and self._waits:
                self._resetting[:] = info[ABSENT]
            return self._seen(obs, info)
        except Mismatch as error:
            raise self._bad_row(error) from error

    def step(self, actions: Array) -> Step:
        """Take one step in every environment.

        ``actions`` are stored values: int64 from 0, or float32 unclipped.

        Raises:
            BadRow: an observation or a reward is not what the environment's space says, NaN or
                infinite, or a mask allows no action.
        """
        try:
            return self._unchecked_step(actions)
        except Mismatch as error:
            raise self._bad_row(error) from error

    def _bad_row(self, error: Mismatch) -> BadRow:
        return BadRow(error.key, self.actor, self.step_number, f"{self.spec.name}: {error.why}")

    def _unchecked_step(self, actions: Array) -> Step:
        """One step; raises ``Mismatch`` instead of ``BadRow``."""
        self._seeded = None
        obs, rewards, terminations, truncations, info = self._step_env(actions)
        if MASK in info and self._allowed is None:
            raise Mismatch(MASK_KEY, _LATE)
        valid = self._all_valid
        if self._waits:
            valid = ~self._resetting
        self._returns += rewards
        self._lengths += valid
        self.ages += self.ages < _OLDEST
        ended = final = None
        over = terminations | truncations
        if np.count_nonzero(over):
            final = np.flatnonzero(over) if self._waits or self._masks else None
            # An agent that is out while its game goes on has ended once.
            ended = np.flatnonzero(over & valid)
            ended = ended if len(ended) else None
        step = Step(self._seen(obs, info, final), rewards, terminations, truncations, valid)
        step.components = info.get(COMPONENTS)
        if self._waits:
            self.ages[self._resetting] = 0
            self.configurations[self._resetting] = self._number
            self._resetting = over
        if ended is not None:
            self._end_episodes(step, over, ended, info)
        if self._clip:
            step.rewards = np.clip(step.rewards, -1.0, 1.0)
        if self._terminal_lives and "lives" in info:
            lives = info["lives"]
            if self._lives is not None and (lost := (lives < self._lives) & ~over).any():
                step.terminations = step.terminations | lost
            self._lives = lives.copy()
        return step

    def _step_env(self, actions: Array) -> tuple[Any, Array, Flags, Flags, dict[str, Any]]:
        """One step of the environment; if it is reset by mask, what ended before is reset first."""
        over = self._resetting
        if not (self._masks and over.any()):
            if self._wanted and self._waits and over.any():
                self._begin(over)
            return self._columns(self.env.step(self.to_env(actions)))
        begun: dict[str, Any] = {}
        obs = self._restarted(over, begun)
        if self._allowed is not None:  # what was chosen for the last state may be forbidden now
            instead = self._allowed.first(self._seen(obs, begun, np.flatnonzero(~over))[MASK_KEY])
            actions = np.where(over.reshape(-1, *[1] * (actions.ndim - 1)), instead, actions)
        stepped = self.env.step(self.to_env(actions))
        _, rewards, terminations, truncations, info = self._columns(stepped)
        obs = self._restarted(over, info)
        return obs, np.where(over, 0.0, rewards), terminations & ~over, truncations & ~over, info

    def _columns(self, stepped: Any) -> tuple[Any, Array, Flags, Flags, dict[str, Any]]:
        if self._checked:
            require_finite("rewards", stepped[1])
            return stepped  # type: ignore[no-any-return]
        obs, rewards, terminations, truncations, info = five_of(stepped)
        rewards = column("rewards", rewards, self.envs, _FLOATS)
        terminations = column("terminations", terminations, self.envs, _FLAGS)
        truncations = column("truncations", truncations, self.envs, _FLAGS)
        if self._masks:  # they are read after a reset, which may write into these arrays
            rewards, terminations, truncations = map(np.copy, (rewards, terminations, truncations))
        return obs, rewards, terminations, truncations, info

    def _end_episodes(
        self, step: Step, over: Flags, ended: NDArray[np.int64], info: dict[str, Any]
    ) -> None:
        self.totals = self._returns[ended].tolist()
        self._done_returns += self.totals
        self._done_lengths += self._lengths[ended].tolist()
        self._done_rows += ended.tolist()
        if self._number:
            self._done_configurations += self.configurations[ended].tolist()
        self._returns[ended] = 0
        self._lengths[ended] = 0
        step.ended = ended
        if self._masks or self._waits:
            step.final = {name: part[ended] for name, part in step.obs.items()}
        else:
            # A list or an object array of single observations, a batched array, or a Dict of
            # batched ones.
            last = info.get("final_obs", info.get("final_observation"))
            if last is None:
                raise Mismatch(OBSERVATIONS, _NO_LAST)
            single = isinstance(last, list) or (
                isinstance(last, np.ndarray) and last.dtype == object
            )
            paths = [(path, stored.key) for path, stored in self._stored]
            if self.spec.masked == "observation":
                paths.append(((MASK,), MASK_KEY))
            found: Parts = {
                key: np.stack([at(last[i], path, key) for i in ended])
                if single
                else np.asarray(at(last, path, key))[ended]
                for path, key in paths
            }
            rows = (len(ended),)
            checked = {each.key: each(found[each.key], rows) for _, each in self._stored}
            step.final = {**found, **checked}
            if self._allowed is not None:
                said = step.final.get(MASK_KEY)
                if said is None:
                    said = self._allowed.said(info.get("final_info", {}))[ended]
                step.final[MASK_KEY] = self._allowed.flags(said)
                self._allowed.open(step.final[MASK_KEY])
        if self._waits:
            return
        if self._masks:
            step.obs = self._seen(self._restarted(over, info), info)
        self.ages[ended] = 0
        self.configurations[ended] = self._number

    def _restarted(self, over: Flags, info: dict[str, Any]) -> Any:
        """Reset the environments that ended; put their new lives into ``info``."""
        self._begin(over)
        obs, begun = pair_of(self.env.reset(options={"reset_mask": over.astype(bool)}))
        if "lives" in info and "lives" in begun:
            info["lives"] = np.where(over, begun["lives"], info["lives"])
        if self._allowed is not None:
            info[MASK] = np.where(over[:, None], *map(self._allowed.said, (begun, info)))
        return obs

    def state_of(self, env: int) -> dict[str, Any]:
        """The state of one environment and of its present episode, even if that has just ended.

        Raises:
            NotBranched: it cannot be cloned.
        """
        if not isinstance(self.env, SerialVectorEnv):
            raise NotBranched(_NOT_SINGLE.format(self.spec.name, type(self.env).__name__))
        rows = {name: getattr(self, name)[env].copy() for name in self._of_episodes()}
        return {"env": self.env.state_of(env), "number": self._number, **rows}

    def put_state(self, env: int, state: Mapping[str, Any]) -> None:
        """Have one environment go on from a state, as an episode that had been its own."""
        assert isinstance(self.env, SerialVectorEnv)
        self._seeded, held = None, state["env"]
        if state["number"] != self._number:  # it lacks what was set since
            held = held._replace(wanted=self._wanted)
        self.env.put_state(env, held)
        for name in self._of_episodes():
            getattr(self, name)[env] = state[name]

    def _of_episodes(self) -> tuple[str, ...]:
        lives = () if self._lives is None else ("_lives",)
        return ("ages", "configurations", "_returns", "_lengths", "_resetting", *lives)

    def is_over(self, env: int) -> bool:
        """Whether its episode has ended, and the next step only begins another one."""
        return bool(self._resetting[env])

    def exchange_ended(self, ended: Sequence[list[Any]] = ()) -> tuple[list[Any], ...]:
        """Take what was noted of episodes that ended since ``drain_episodes``, and note this."""
        names = ("_done_returns", "_done_lengths", "_done_configurations", "_done_rows")
        taken = tuple(getattr(self, name) for name in names)
        for name, noted in zip(names, ended or ([], [], [], []), strict=True):
            setattr(self, name, noted)
        return taken

    def so_far(self, env: int) -> tuple[float, int]:
        """Raw return and length of the present episode of one environment."""
        return float(self._returns[env]), int(self._lengths[env])

    def drain_episodes(self) -> tuple[tuple[float, ...], tuple[int, ...]]:
        """Raw returns and lengths of the episodes that ended since the last call."""
        drained = tuple(self._done_returns), tuple(self._done_lengths)
        self._done_returns, self._done_lengths = [], []
        self.begun, self._done_configurations = tuple(self._done_configurations), []
        self.rows, self._done_rows = tuple(self._done_rows), []
        return drained

    def _begin(self, which: Flags) -> None:
        """These environments are about to be reset: have them take over what is wanted."""
        if self._wanted:
            self._setter.begin(which, self._wanted)

    def close(self) -> None:
        """Close the environments."""
        self.env.close()

    # -- observations --------------------------------------------------------------------------

    def _seen(
        self, obs: Any, info: dict[str, Any], final: NDArray[np.int64] | None = None
    ) -> Parts:
        """Observations by data key, checked; episodes end in the rows ``final``."""
        rows, parts = (self.envs,), {}
        for path, stored in self._stored:
            part = at(obs, path, stored.key) if path else obs
            parts[stored.key] = stored.rows(part) if self._checked else stored(part, rows)
        if self.spec.masked == "observation":
            parts[MASK_KEY] = np.asarray(at(obs, (MASK,), MASK_KEY))
        if self._allowed is not None:
            self._allowed.put(parts, info)
            if final is not None:
                self._allowed.open(parts[MASK_KEY], final)
            empty = np.flatnonzero(self._allowed.empty(parts[MASK_KEY]))
            if len(empty):
                raise BadRow(
                    MASK_KEY, self.actor, self.step_number, _EMPTY.format(empty[0], self.spec.name)
                )
        return parts


_NOT_SINGLE = (
    "environment {} is a vector environment ({}), whose parts have no state of their own: let a "
    "factory return a single one"
)
_LATE = (
    "info says which actions may be chosen, as it did not at the first reset: let reset say it, too"
)
_NO_LAST = (
    "an episode ended and was reset without final_obs in the info, the observation that its last "
    "step led to: give it, or make the environment with AutoresetMode.NEXT_STEP or DISABLED"
)
_EMPTY = (
    "environment {} of {} allows no action, or does not say which: let its action_mask allow at "
    "least one in every state, in the info of reset and of every step if it is there"
)


def action_writer(spec: ActionSpec) -> Callable[[Array], Array]:
    """A function that makes stored actions what the environment takes: shifted, clipped, cast.

    The array is a new one: the environment may keep it, and change it.
    """
    if spec.kind == "box":
        dtype = np.dtype(spec.dtype)
        # Bounds of the space's own dtype, in one that also holds the policy's numbers: clipped at
        # float32's idea of a float64 bound, an action may be outside.
        wide, most = np.promote_types(dtype, np.float32), float(np.finfo(dtype).max)
        low, high = (
            np.array([outside if b is None else b for b in bounds], wide).reshape(spec.shape)
            for bounds, outside in ((spec.low, -most), (spec.high, most))
        )
        return lambda actions: np.clip(actions.astype(wide), low, high).astype(dtype, copy=False)
    dtype = np.dtype(spec.dtype)
    if not spec.start:
        return lambda actions: np.array(actions, dtype)
    start = np.array(spec.start, np.int64).reshape(spec.shape)
    return lambda actions: (actions + start).astype(dtype, copy=False)
