"""Which sites were ordered of which node, and how often one ended there by itself. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from artos.protocol.control import Assign, ExecutorEnded, Unassign
from artos.protocol.message import Message

MOST_IN_A_ROW = 3
"""Sites of a run that ended by themselves on one node, after which it gets no other there."""
_LONG_LIVED = 60.0


@dataclass(slots=True)
class _Site:
    """A site as it was last ordered. ``closed``: it ended because its run told it to.

    ``until`` is when it is closed, as it is wanted no more; None while it is.
    """

    assign: Assign
    since: float
    closed: bool = False
    until: float | None = None


@dataclass(slots=True)
class _Mishaps:
    count: int = 0
    why: str = ""


class Executors:
    """Orders are the difference between the sites a node should have and those it was told of."""

    def __init__(self) -> None:
        self._sites: dict[str, dict[str, _Site]] = {}
        self._mishaps: dict[tuple[str, str], _Mishaps] = {}

    def __repr__(self) -> str:
        return f"<Executors nodes={len(self._sites)} open={sum(map(len, self._sites.values()))}>"

    def joined(
        self, node: str, runs: Mapping[str, int], wanted: Mapping[str, int]
    ) -> list[Message]:
        """A worker daemon is there (again) with sites of these runs, by epoch; closes the others.

        Those that are ``wanted`` are ordered once more by ``orders``: it may have lost some.
        """
        self._sites[node] = {}
        return [Unassign(run) for run, epoch in runs.items() if wanted.get(run) != epoch]

    def gone(self, nodes: Collection[str]) -> None:
        """These nodes have no sites any more, and what went wrong there does not count any more."""
        for node in nodes:
            self._sites.pop(node, None)
        self._mishaps = {key: each for key, each in self._mishaps.items() if key[1] not in nodes}

    def forgive(self, run: str) -> None:
        """What went wrong with a run's sites so far does not count any more."""
        self._mishaps = {key: each for key, each in self._mishaps.items() if key[0] != run}

    def ended(self, node: str, ended: ExecutorEnded, now: float) -> None:
        """A site is gone; another one is ordered if it ended by itself."""
        sites = self._sites.get(node, {})
        site = sites.get(ended.run)
        if site is None or site.assign.epoch != ended.epoch:
            return
        if not ended.why:
            site.closed = True
            return
        del sites[ended.run]
        mishaps = self._mishaps.setdefault((ended.run, node), _Mishaps())
        mishaps.count = 1 if now - site.since > _LONG_LIVED else mishaps.count + 1
        mishaps.why = ended.why

    def hopeless(self, run: str, node: str) -> str:
        """Why a run gets no more sites on a node, "" if it does."""
        mishaps = self._mishaps.get((run, node))
        if mishaps is None or mishaps.count < MOST_IN_A_ROW:
            return ""
        return f"its site on {node} ended {mishaps.count} times in a row: {mishaps.why}"

    def orders(
        self, node: str, wanted: Mapping[str, Assign], now: float,
        patience: Callable[[str], float] = lambda run: 0.0,
    ) -> list[Message]:  # fmt: skip
        """What a daemon must be told so that its node has the wanted sites and no others.

        ``patience`` says for how many seconds the site of a run may stay that is wanted no more.
        """
        sites = self._sites.setdefault(node, {})
        orders: list[Message] = []
        for run, site in [(run, site) for run, site in sites.items() if run not in wanted]:
            site.until = now + patience(run) if site.until is None else site.until
            if site.closed or now >= site.until:
                del sites[run]
                orders += [] if site.closed else [Unassign(run)]
        for run, assign in wanted.items():
            old = sites.get(run)
            reopened = old is not None and old.closed and old.until is not None
            if old is None or old.assign.epoch != assign.epoch or reopened:
                sites[run] = _Site(assign, now)
                orders.append(assign)
            elif old.assign != assign and not old.closed:
                old.assign = assign
                orders.append(assign)
            sites[run].until = None
        return orders
