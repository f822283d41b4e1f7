"""The answers in JSON: everything that the page shows can be asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from artos.errors import ArtosError, DeadlineExceeded, NoHead, NoSuchRun, Refused, StillCopied
from artos.protocol.run_state import OVER
from artos.runs import run_config
from artos.system.regular_file import lies_in
from deploy.client import bills
from deploy.client.fetch import NUMBERS
from deploy.dashboard.curves import RETURN, curves
from deploy.dashboard.lags import of_journal, of_progress, of_summary
from deploy.dashboard.paths import learners_of, path_of_row, path_of_update, path_of_version
from deploy.dashboard.rare import RareLines
from deploy.dashboard.sources import Source
from deploy.dashboard.timeline import timeline
from deploy.dashboard.wiring import rates, wiring
from deploy.metrics.exposition import exposition
from deploy.metrics.families import families
from deploy.tracing.lines import Config
from head.daemon import status_api
from head.records.run_folder import LOG, LOGS
from head.records.shape import Shape
from triggers.journal_index import JournalIndex

Query = Mapping[str, str]
_JOURNAL = "journal.jsonl"
_LAST_OF_LOG = -20_000
_MOST_RUNS = 64
"""Runs whose curves are drawn into one picture."""


class Answers:
    """Answers questions about the runs of a source; raises ArtosError with words for a person."""

    def __init__(self, source: Source, prices: bills.Prices | None = None) -> None:
        self._source, self._prices, self._rare = source, prices, RareLines()
        self._kept = Answers(source.kept, prices) if source.kept else None

    def runs(self, query: Query) -> Any:
        """All runs in short."""
        return {"runs": [run.plain for run in self._source.cluster().runs]}

    def cluster(self, query: Query) -> Any:
        """Nodes, runs and quotas; of this machine also who holds its slots and devices."""
        pool = self._source.pool()
        return self._source.cluster().plain | {"pool": pool and msgspec.to_builtins(pool)}

    def bill(self, query: Query) -> Any:
        """What runs have held and used, and its cost."""
        runs = self._source.cluster().runs
        found = [bills.bill(run, self._prices) for run in runs]
        sums = {"users": bills.by_user(found), "total": bills.total(found)}
        damage = {run.name: run.damage for run in runs if isinstance(run.damage, str)}
        damage = {name: why for name, why in damage.items() if why}
        currency = self._prices.currency if self._prices else ""
        return {"runs": found, **sums, "currency": currency, "damage": damage}

    def curves(self, query: Query) -> Any:
        """Curves of runs, those of a group with their spread: ``runs``, ``what``, ``across``."""
        named = [name for name in query.get("runs", "").split(",") if name]
        every = named or [run.name for run in self._source.cluster().runs]
        names = every[:_MOST_RUNS] if named else every[-_MOST_RUNS:]
        folders, faults, copying = dict[str, Path](), dict[str, str](), 0
        if (more := len(every) - len(names)) > 0:
            why = f"left out: the {'first' if named else 'last'} {_MOST_RUNS} are drawn"
            faults[f"{more:,} more runs"] = f"{why}; name those that you want, with runs="
        for name in names:
            try:
                folders[name] = self._source.folder(name, NUMBERS)
            except (Refused, OSError) as error:  # of another user, say, or without a folder yet
                if named and isinstance(error, NoSuchRun):
                    raise
                faults[name] = str(error)
            except StillCopied as error:
                faults[name], copying = str(error), copying + 1
        found = curves(folders, query.get("what", RETURN), query.get("across", "steps"))
        return msgspec.structs.replace(found, faults=found.faults | faults, copying=copying)

    def run(self, name: str, query: Query) -> Any:
        """A run in full, its configuration, and the time that its journal spans."""
        view = self._source.run(name).plain
        nothing: dict[str, Any] = {"config": {"learners": []}}
        try:
            folder = self._source.folder(name)
        except NoSuchRun:
            raise
        except Refused as error:  # it waits, was refused, or is another user's
            return view | nothing | {"journal": {"damage": str(error)}}
        try:
            plain, config = run_config.read(folder, Config)
        except FileNotFoundError:
            return view | nothing | {"journal": {"damage": f"run {name} has no records yet"}}
        kept = ("workload", "settings", "seed", "algorithm", "env", "resumed", "versions", "device")
        told = {key: plain[key] for key in kept if key in plain}
        told["learners"] = learners_of(config.plan) if config.plan else []
        try:
            with JournalIndex(folder / _JOURNAL) as index:
                times = {"from": index.begin, "to": index.end, "bytes": index.size}
        except Refused as damage:
            return view | {"config": told, "journal": {"damage": str(damage)}}
        return view | {"config": told, "journal": times}

    def timeline(self, name: str, query: Query) -> Any:
        """What members did from ``from`` to ``to``, in seconds; without these, in all."""
        since, until = _number(query, "from", 0.0), _number(query, "to", math.inf)
        if not since <= until:
            raise Refused([f"from={since:g} must not come after to={until:g}"])
        with self._journal(name) as (index, config):
            steps = config.plan.steps if config.plan else 0
            return timeline(index, since, until, steps, self._rare)

    def path(self, name: str, query: Query) -> Any:
        """The path of a row, by ``actor`` and maybe ``env``, or of a ``learner``'s ``version``.

        Or of its ``update``.
        """
        with self._journal(name) as (index, config):
            shape = _shape_of(name, config)
            if "update" in query:
                update, learner = int(_number(query, "update")), query.get("learner", "")
                return path_of_update(index, shape, update, learner)
            if "version" in query:
                version, learner = int(_number(query, "version")), query.get("learner", "")
                return path_of_version(index, shape, version, learner)
            actor, row = int(_number(query, "actor")), int(_number(query, "row"))
            env = int(_number(query, "env")) if query.get("env") else None
            return path_of_row(index, shape, actor, row, env)

    def lags(self, name: str, query: Query) -> Any:
        """A histogram of the lag of the rows that it learned from."""
        view = self._source.run(name)
        if found := of_summary(view.ending) or of_progress(view.progress):
            return found
        with self._journal(name) as (index, _):
            return of_journal(index)

    def wiring(self, name: str, query: Query) -> Any:
        """The table of triggers as nodes and edges, with what flows now."""
        with self._journal(name) as (index, config):
            shape = _shape_of(name, config)
            return wiring(shape, self._source.run(name).progress, rates(index))

    def log(self, name: str, query: Query) -> Any:
        """A piece of a ``log`` from ``offset`` on; a negative one counts from the end."""
        view, folder = self._source.run(name), self._source.folder(name)
        log, logs = query.get("log") or status_api.RUN, _logs(folder)
        # A link in a run's folder could lead to any file of this user.
        if log not in logs and (log != status_api.RUN or (folder / LOGS / LOG).exists()):
            raise Refused([f"run {name} has no log {log!r}; there are: {', '.join(logs)}"])
        offset = int(_number(query, "offset", _LAST_OF_LOG))
        return status_api.log(folder, log, offset, view.state) | {"logs": logs}

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """What Prometheus reads, and its media type, as of ``artos metrics``."""
        return exposition(families(self._source.cluster()), accept)

    def live(self, name: str) -> Any:
        """What changes of a run, or of all of them if ``name`` is empty."""
        if not name:
            return self.cluster({})
        view = self._source.run(name)
        return view.plain | {"over": view.state in OVER}

    @contextmanager
    def _journal(self, name: str) -> Iterator[tuple[JournalIndex, Config]]:
        folder = self._source.folder(name)
        try:
            config = run_config.read(folder, Config)[1]
        except OSError as error:
            raise Refused([f"run {name}: config.json: {error.strerror}"]) from error
        with JournalIndex(folder / _JOURNAL) as index:
            yield index, config

    def of_run(self) -> dict[str, Callable[[str, Query], Any]]:
        """The questions about one run, by the last word of their address; "" has none."""
        asks = {
            "": Answers.run, "timeline": Answers.timeline, "path": Answers.path,
            "lags": Answers.lags, "wiring": Answers.wiring, "logs": Answers.log,
        }  # fmt: skip
        return {word: partial(self._as_known, ask) for word, ask in asks.items()}

    def of_all(self) -> dict[str, Callable[[Query], Any]]:
        """The questions about all of them."""
        asks = {
            "runs": Answers.runs, "cluster": Answers.cluster, "bill": Answers.bill,
            "curves": Answers.curves,
        }  # fmt: skip
        return {word: partial(self._as_known, ask) for word, ask in asks.items()}

    def _as_known(self, ask: Callable[..., Any], *about: Any) -> Any:
        """The answer; while the head is away, by what is kept of it, and with its ``age`` (s)."""
        try:
            return ask(self, *about)
        except (NoHead, DeadlineExceeded):
            kept, (*name, _) = self._source.kept, about
            if kept is None:
                raise
            with suppress(ArtosError, OSError):
                found = msgspec.to_builtins(ask(self._kept, *about))
                return found | {"age": round(kept.age(*name), 1)}
            raise


def _shape_of(name: str, config: Config) -> Shape:
    if config.plan is None:
        raise Refused([f"{name}: config.json has no plan, as in earlier versions of ARTOS"])
    return config.plan


def _logs(folder: Path) -> list[str]:
    """The names of the logs that are files of this folder, and no links out of it."""
    logs = folder / LOGS
    found = (path for path in [*logs.glob("*.log"), *logs.glob("*/*.log")] if lies_in(path, folder))
    return sorted(path.relative_to(logs).with_suffix("").as_posix() for path in found)


def _number(query: Query, name: str, default: float | None = None) -> float:
    text = query.get(name)
    if text is None and default is not None:
        return default
    try:
        number = float(text or "")
    except ValueError:
        number = math.nan
    if math.isnan(number) or (math.isinf(number) and name not in ("from", "to")):
        raise Refused([f"{name}={text or ''} must be a number"])
    return number
