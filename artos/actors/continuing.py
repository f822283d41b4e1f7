"""An actor whose present episodes can be gone on with, and put back (``artos branch``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from artos.actors.recurrent_state import RecurrentState
from artos.envs.stepper import Parts, Stepper
from artos.errors import NotBranched
from artos.policies.acting import ActInfo, BoundPolicy
from artos.specs.bound import Bound
from artos.specs.contracts import Actor, Played
from artos.system.random_streams import own_streams, renew, seed_of, streams_of
from artos.system.snapshot import (
    NotKept,
    global_streams,
    pickled,
    put_back,
    set_global_streams,
    taken_whole,
    unpickled,
)

_FIRST = "{} first actions are given for {} continuations: give as many, or none"
_POLICY = "the policy cannot be put back ({}): let its class name in `kept` what changes as it acts"


class Continuing(Actor):
    """Goes on with an episode beside what it writes; its ``setup`` sets what is declared here."""

    envs: int
    _observations: Parts
    _state: RecurrentState
    _stepper: Stepper
    _policy: BoundPolicy
    _info: ActInfo
    _seed: int
    _branched: int
    """How many continuations there were: each has random streams of its own."""

    def present(self, env: int) -> tuple[dict[str, NDArray[Any]], Played]:
        """What it acts on next in an environment, by data key, and that episode so far."""
        seen = {name: part[env] for name, part in self._observations.items()}
        for single in getattr(self._stepper.env.unwrapped, "envs", ())[env : env + 1]:
            if (emulator := getattr(single.unwrapped, "ale", None)) is not None:
                seen["ram"] = emulator.getRAM()
        return seen, Played(*self._stepper.so_far(env))

    def state_of(self, env: int) -> dict[str, Any]:
        """The state of one environment and its episode, between two rounds; see ``put_state``.

        Raises:
            NotBranched: it cannot be cloned.
        """
        return {
            "episode": self._stepper.state_of(env),
            "observations": {name: part[env].copy() for name, part in self._observations.items()},
            "state": {name: array[env].copy() for name, array in self._state.arrays.items()},
        }

    def put_state(self, env: int, state: Mapping[str, Any], seed: int | None = None) -> None:
        """Have an environment go on from a state, of its own or of another, until it ends.

        With a ``seed`` it has random streams of its own from there, as far as these can be reached.
        """
        self._stepper.put_state(env, state["episode"])
        for name, part in state["observations"].items():
            self._observations[name][env] = part
        for name, array in state["state"].items():
            self._state.arrays[name][env] = array
        if seed is not None:
            single: Any = self._stepper.env.unwrapped
            renew(streams_of(single.envs[env]), seed)

    def continued(
        self, times: int, steps: int = 0, env: int = 0, first: Sequence[Any] = (), past: int = 0
    ) -> list[Played]:
        """Continue the present episode of ``env`` ``times`` times, here, and put everything back.

        A policy may call it, as ``info.branch``, while it decides what to do. Each continuation
        acts by the policy, with random streams of its own, until the episode ends or for so many
        ``steps`` (0: no limit), but begins with the action ``first[k]`` if there are such. With
        ``past`` it acts with the weights of ``bound.past(past)``. What the actor does afterwards is
        what it would have done without. Where the episode has just ended, nothing is left to play.

        Raises:
            NotBranched: the environments, or the policy, cannot be cloned.
            ValueError: no such version is ever kept.
        """
        if first and len(first) != times:
            raise NotBranched(_FIRST.format(len(first), times))
        info, stepper, acts = self._info, self._stepper, self.bound
        if stepper.is_over(env):
            return [Played(0.0, 0, ended=True)] * times
        if past:
            then = acts.past(past)
            objects, pasts = {**acts.objects, **then.objects}, acts.pasts[past:]
            acts = replace(
                acts, version=then.version, params=then.params, objects=objects, pasts=pasts
            )
        shown = [(part, part.copy()) for part in self._observations.values()]
        states = [self.state_of(each) for each in range(self.envs)]
        try:
            held = pickled((taken_whole(self._policy), global_streams()))
        except NotKept as error:
            raise NotBranched(_POLICY.format(error.why)) from error
        ended, observations = stepper.exchange_ended(), self._observations
        branch, greedy, found = info.branch, info.greedy, list[Played]()
        info.branch = None
        for number in range(times):
            self._branched += 1
            seed = seed_of(self._seed, self._branched)
            own_streams(seed)
            # What was put back has generators of its own.
            renew(streams_of((self._policy, stepper)), seed)
            begins = first[number] if first else None
            try:
                if past:
                    self._act_as(acts)
                found.append(self.play_on(env, steps, first=begins))
            finally:
                if past:
                    self._act_as(self.bound)
                self._observations = observations
                for part, was in shown:
                    part[...] = was
                for each, state in enumerate(states):
                    self.put_state(each, state)
                policy, of_process = unpickled(held)
                put_back(self._policy, policy)
                set_global_streams(of_process)
                stepper.exchange_ended()
        stepper.exchange_ended(ended)
        info.branch, info.greedy = branch, greedy
        return found

    def _act_as(self, bound: Bound) -> None:
        assert bound.params is not None  # in a run they are there
        self._policy.bind(bound.params)
        self._info.bound = bound

    def play_on(
        self, env: int, steps: int = 0, *, greedy: bool = False, first: Any = None
    ) -> Played:
        """Go on, and write no rows, until the episode of ``env`` ends or for so many ``steps``.

        The first action there is ``first``, unless that is None.
        """
        self._info.greedy, stepper = greedy or self._info.greedy, self._stepper
        total, length = stepper.so_far(env)
        stepper.drain_episodes()
        played = 0
        while not steps or played < steps:
            self._state.begin(stepper.ages)
            output = self._policy.act(self._observations, self._info)
            self._state.take(output)
            actions = output["actions"]
            if first is not None:
                actions = actions.copy()
                actions[env], first = first, None
            result = stepper.step(actions)
            self._observations = result.obs
            played += int(result.valid[env])
            if result.ended is not None and env in result.ended:
                returns, lengths = stepper.drain_episodes()
                at = stepper.rows.index(env)
                return Played(returns[at] - total, lengths[at] - length, ended=True)
        now, longer = stepper.so_far(env)
        return Played(now - total, longer - length)
