"""Mean returns and numbers of episodes, for triggers that wait for them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from artos.protocol.invocations import Done, Invoke
from artos.specs.keys import EPISODES, episodes_of
from artos.specs.members import ENV, Member
from artos.system.snapshot import put_back
from head.run.coordination.concern import NOTHING, Concern
from head.run.run import Run
from triggers.events import Published
from triggers.table import Table


class Returns(Concern[Run]):
    """Publishes ``mean_return_N`` and ``episodes_ended`` with reports of actors, as triggers read.

    For a mean only episodes count that began since a setting of the environments was changed last,
    so no curriculum goes on by what was easier. As long as they are fewer than N it is NaN; where a
    resumed run goes on with the same settings nothing is published, as it is only not known.
    """

    kept = ("_env", "_told", "_most")

    def __init__(self, run: Run, table: Table) -> None:
        super().__init__(run)
        read = {name: episodes_of(name) for t in table.values() for name in t.objects_read()}
        self._counts = EPISODES in read
        self._last = {name: deque[float](maxlen=most) for name, most in read.items() if most}
        self._env: Mapping[str, float] = {}
        self._since = self._told = 0
        self._most = 0
        """The number of episodes that triggers know of: more than there are, while those that ended
        after the checkpoint are played again."""
        self._resumes, self._unknown = False, set[str]()

    def resumed(self, held: Mapping[str, Any]) -> None:
        """Go on from what is ``kept`` of an earlier part of the run."""
        put_back(self, held)
        self._resumes, self._unknown = True, {*self._last}

    def begin(self) -> None:
        """Triggers count on from the episodes of earlier parts."""
        if self._resumes and self._counts:
            self._most = ended = max(self._most, self.run.monitor.episodes)
            self.run.feed(Published(EPISODES, ended, value=(ended,), again=True))
        self._resumes = False  # one that goes on with its books as they were need not be told

    def answered(self, member: Member, call: Invoke, done: Done) -> Mapping[str, Any]:
        """An actor has finished episodes."""
        if not ((self._counts or self._last) and self.run.members.role(member).samples):
            return NOTHING
        if self._counts and (ended := self.run.monitor.episodes) > self._most:
            self._most = ended
            self.run.feed(Published(EPISODES, ended, value=(ended,)))
        configuration = self.run.configuration
        if (now := configuration.of(ENV)) != self._env:
            self._env, self._since = now, configuration.number
            self._unknown.clear()
            for last in self._last.values():
                last.clear()
        begun = done.begun or (call.configuration,) * len(done.returns)
        new = [r for r, at in zip(done.returns, begun, strict=True) if at >= self._since]
        for name, last in self._last.items():
            last.extend(new)
            if name in self._unknown and len(last) != last.maxlen:
                continue
            self._unknown.discard(name)
            self._told += 1
            mean = sum(last) / len(last) if len(last) == last.maxlen else math.nan
            self.run.feed(Published(name, self._told, value=(mean,)))
        return NOTHING
