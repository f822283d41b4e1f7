"""Keeps a run's records up to date: status, CSV, episodes, checkpoints, summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from artos.buffer.handed_over import handed_over
from artos.clock import Clock
from artos.errors import NotSaved
from artos.protocol.usage import Usage, flat
from artos.protocol.views import Status
from artos.runs import checkpoint
from artos.runs.checkpoint import Manifest, Without
from artos.runs.plan import Plan
from artos.runs.run_memory import RunMemory
from artos.specs.devices import POOL
from artos.system.process_age import age
from artos.system.snapshot import Snapshot, taken
from head.records.curve import draw
from head.records.evaluations import Evaluated
from head.records.gaps import Gaps
from head.records.progress_log import ProgressLog, flatten
from head.records.run_folder import RunFolder
from head.records.status import Summary
from head.records.telling import Telling
from head.records.tracker import Tracker
from head.run import saved_learners, saved_triggers
from head.run.bill import bill_of, device_seconds, of_actors
from head.run.concerns.evaluation import Evaluation
from head.run.concerns.returns import Returns
from head.run.concerns.scaling import Scaling
from head.run.coordination.versions import Newest
from head.run.run import Run
from head.run.saved_learners import OBJECT
from triggers.base import Trigger

_LOG_SECONDS = 0.5
_BILL_SECONDS = 1.0  # it takes a look at every process
_CHECKPOINT_SECONDS = 2.0
_CHECKPOINT_SHARE = 0.01
_GROWTH = 4.0
"""How many times longer than the last one a pause between checkpoints may be.

Else one that was slow by chance (a cold disk, a busy machine) leaves minutes unsaved; of a run
whose checkpoints are all slow only the first few come sooner than their share allows.
"""
_CHECKPOINT = "the checkpoint"
_SINCE = "the last one stays, and saving is tried again; make room"
_GAP = "the run goes on without it, and writing is tried again; make room"
RESTORED = (
    "weights",
    "optimiser state",
    "objects published beside them",
    "policy version",
    "step, update and episode counters",
    "the number of active actors, and the state of what decides it",
    "what triggers remember: firings, counts, and on which side of a bound a number is",
)
_NOT_RESTORED = (
    "environment states: every environment starts a new episode",
    "random streams: actors draw from new streams derived from seed, actor and resume count",
    "the learner's state besides its module, optimiser and objects: its setup makes it anew",
    "policy lag, times, restarts and lost rows: counted from here on",
)
_HELD = (
    "what members held: checkpoint=all saves that when a run ends or is stopped, and this one did "
    "not end in order"
)
_EXPERIENCE = "experience sampled but not yet learned from: it is sampled again"
_REPLAY = (
    "the replay buffer: it is empty again, rows that were learned from are gone too, and with them "
    "the priorities and random streams of samplers"
)
_DRAWS = (
    "random streams of samplers, and the number of draws that are due, which is as if the ratio "
    "had been kept"
)
_PRIORITIES = "the priorities of rows: all are drawn as new ones are"
RESTORED_ROWS = "the replay buffer"
RESTORED_WITH_STATES = (
    "all rows, learned from or not, and who is to sample or learn next",
    "random streams, environment states, recurrent states, priorities",
    "policy lag, times, restarts and lost rows",
)


class Recorder:
    """Reads the coordinator, writes the run folder. Called after each batch of events."""

    def __init__(
        self, plan: Plan, folder: RunFolder, log: ProgressLog, board: Tracker, node: RunMemory,
        coordinator: Run, clock: Clock, gaps: Gaps, *, before: Manifest | None = None,
        snapshot: Callable[[], Snapshot | None] = lambda: None,
        usage: Callable[[], Usage] = Usage, epoch: int = 0,
    ) -> None:  # fmt: skip
        self._plan, self._folder, self._log, self._node = plan, folder, log, node
        self._coordinator, self._clock = coordinator, clock
        self._board, self._telling = board, Telling(board)
        self._is_told = before is None
        self._before, self._gaps, self._snapshot = before, gaps, snapshot
        self._usage, self._epoch = usage, epoch
        self._created = clock.now()
        self._whole = plan.checkpoint == "all"
        self._began: float | None = None
        self._ended: float | None = None
        self._steps_at_begin = coordinator.steps
        self._next_log = self._next_bill = clock.now()
        self._billed = self._earlier = Usage.of(before.usage if before else {})
        self._next_save = clock.now()  # the first checkpoint, as soon as there are weights
        self._pause = _CHECKPOINT_SECONDS
        self._saved: tuple[int, ...] = (-1, 0)
        self._saved_states = False
        self._of_table = (before.triggers if before else {}), coordinator.configuration
        if before:
            others = (before.learners.get(name) for name in plan.learners[1:])
            versions = (each.version if each else -1 for each in others)
            self._saved = before.version, before.steps * self._whole, *versions
        if before:
            coordinator.first.updates = before.updates
            for name, saved in before.learners.items():
                coordinator.learners[name].updates = saved.updates
                coordinator.learners[name].resumed(before.untold)
            coordinator.first.resumed(before.untold)
            saved_triggers.go_on(self._triggers, before.triggers)
            coordinator.concern(Returns).resumed(before.returns)
            past = self._log.past_episodes()
            # Not those of the checkpoint: of what is sampled again it counts the episodes, too.
            coordinator.monitor.episodes = len(past) + before.unlisted
            coordinator.monitor.unlisted = before.unlisted
            coordinator.monitor.returns.extend(past.returns.tolist())
            for agent, value in zip(past.agents, past.returns.tolist(), strict=False):
                coordinator.monitor.returns_of[agent].append(value)
            best = Evaluated.of_best(folder.best)
            coordinator.concern(Evaluation).resumed(self._log.past_evaluations(), best)
        self._logged = len(coordinator.concern(Evaluation).found)

    @property
    def _triggers(self) -> dict[str, Trigger]:
        return {each.trigger_id: each.trigger for each in self._coordinator.engine.wrappers}

    @property
    def seconds(self) -> float:
        """Seconds of training: from when all members were ready until the last answer."""
        earlier = self._before.seconds if self._before else 0.0
        return earlier + self._running

    @property
    def _running(self) -> float:
        if self._began is None:
            return 0.0
        return (self._clock.now() if self._ended is None else self._ended) - self._began

    @property
    def due(self) -> bool:
        """Whether ``update`` has something to write."""
        return self._clock.now() >= min(self._next_log, self._next_save)

    def trained(self) -> None:
        """Training time ends before the last evaluation, and before the members are stopped."""
        self._ended = self._ended or self._clock.now()

    def update(self, show: Callable[[Status], None], due: bool) -> None:
        """Write the records that are due; ``due``: ``show`` wants a status, too."""
        coordinator = self._coordinator
        if not self._is_told:  # now the books are there, if they go on
            self._is_told = True
            self._telling.resumed(self.status())
        if self._began is None and coordinator.roster.all_ready(coordinator.actors):
            self._began, self._steps_at_begin = self._clock.now(), coordinator.steps
        now = self._clock.now()
        self._ended = (self._ended or now) if coordinator.ending.trained else None
        log_due = now >= self._next_log
        if log_due or due:
            status = self.status()
            if log_due:
                self._next_log = now + _LOG_SECONDS
                self._write(status)
            if due:
                show(status)
        if now >= self._next_save:
            self.save()

    def _write(self, status: Status, *, last: bool = False) -> None:
        self._keep_best()
        self._list()
        if self._coordinator.progress.updates:
            with self._gaps.allowed("progress.csv", _GAP):
                self._log.write(status, last=last)
            with self._gaps.allowed("events/", _GAP):
                self._telling.row(status)

    def _list(self) -> None:
        """Write down episodes and evaluations that are not in their files yet."""
        with self._gaps.allowed("episodes.csv", _GAP):
            self._episodes()
        with self._gaps.allowed("evaluations.csv", _GAP):
            found = self._coordinator.concern(Evaluation).found
            self._log.evaluated(found[self._logged :])
            self._logged = len(found)

    def _episodes(self) -> None:
        monitor = self._coordinator.monitor
        self._log.episodes(ended := monitor.finished)
        monitor.finished = []
        self._telling.episodes(ended)

    def _keep_best(self) -> None:
        """Save the weights that were just evaluated as the best: those that the evaluator had."""
        evaluation = self._coordinator.concern(Evaluation)
        best, played = evaluation.best, evaluation.unsaved
        if best is None or played is None:
            return
        manifest = Manifest(
            workload=self._plan.name,
            env=self._plan.env,
            seed=self._plan.seed,
            version=played.version,
            steps=played.call.steps,
            updates=played.updates,
            evaluated=msgspec.structs.asdict(best),
        )
        with self._gaps.allowed("best/", _GAP):
            checkpoint.save(self._folder.best, named(dict(played.arrays), self._plan), manifest)
            evaluation.saved()

    def status(self) -> Status:
        """A snapshot of the run."""
        coordinator, monitor = self._coordinator, self._coordinator.monitor
        running = self._running
        rate = (coordinator.steps - self._steps_at_begin) / running if running > 0 else 0.0
        began = self._clock.now() if self._began is None else self._began
        capacity, blocks = self._plan.capacity, coordinator.ports.blocks.values()
        used: dict[str, int] = {}
        for block in blocks:
            for name, header in block.headers.items():
                held = min(header.written - header.released, capacity)
                used[name] = used.get(name, 0) + held
        return Status(
            algorithm=self._plan.name,
            env=self._plan.env,
            seconds=self.seconds,
            steps=coordinator.steps,
            total_steps=self._plan.total_steps,
            updates=coordinator.progress.updates,
            version=coordinator.version,
            steps_per_second=rate,
            mean_return_100=monitor.mean_return,
            episodes=monitor.episodes,
            lag_mean=monitor.lag.mean,
            lag_max=monitor.lag.largest,
            restarts=monitor.restarts,
            rows_lost=monitor.rows_lost,
            fill={name: rows / (capacity * len(blocks)) for name, rows in used.items()},
            waits=coordinator.waits(),
            metrics=self._metrics(),
            times={"start": began - self._created} | monitor.times.seconds(),
            shares=monitor.times.shares(),
            rows_stale=monitor.rows_stale,
            empty_draws=monitor.empty_draws,
            skipped=dict(monitor.firings_skipped),
            total_updates=self._plan.total_updates,
            evaluation=coordinator.concern(Evaluation).newest(),
            usage=flat(self._bill()),
            learners=dict(self._of_others()),
            returns=monitor.mean_returns,
            lags=monitor.lag.histogram,
            waited=monitor.times.waited(),
            settings=coordinator.configuration.settings,
        )

    def _metrics(self) -> dict[str, float]:
        monitor, found = self._coordinator.monitor, dict[str, float]()
        for role, of_it in monitor.beside.items():
            found |= {f"{role}.{name}": value for name, value in of_it.metrics.items()}
        return monitor.metrics | found

    def _of_others(self) -> Iterator[tuple[str, float | None]]:
        for name in self._plan.learners[1:]:
            learner = self._coordinator.learners[name]
            lag = self._coordinator.monitor.beside[name].lag
            yield f"{name}.version", learner.told
            yield f"{name}.updates", learner.updates
            if name in self._plan.read_learners:
                yield f"{name}.lag_mean", lag.mean
                yield f"{name}.lag_max", lag.largest

    @property
    def _leases(self) -> list[str]:
        return [name for name, device in self._plan.devices.items() if device == POOL]

    def _devices(self) -> dict[str, dict[str, Any]]:
        """What each learner had of its device."""
        monitor, found = self._coordinator.monitor, {}
        for name, wanted in self._plan.devices.items():
            device = monitor.devices[name]
            seconds = device_seconds(
                monitor.times, name, leases=name in self._leases, idle=device.idle
            )
            rounded = {each: round(value, 6) for each, value in seconds._asdict().items()}
            lost = {"leases_lost": device.lost}
            found[name] = {"device": device.name or wanted, **rounded, **lost}
        return found

    def _bill(self) -> Usage:
        if (now := self._clock.now()) >= self._next_bill:
            self._next_bill, monitor = now + _BILL_SECONDS, self._coordinator.monitor
            idle = {name: device.idle for name, device in monitor.devices.items()}
            here = bill_of(self._usage(), monitor.times, self._leases, idle, self._plan.learners)
            # Times that went on with the books have the learners' share of earlier parts in them.
            earlier = of_actors(self._earlier) if monitor.goes_on else self._earlier
            self._billed = Usage.total([earlier, here])
        return self._billed

    def save(self, *, rows: bool = False, ended: bool = False) -> None:
        """Save a checkpoint of the newest version, unless it is saved already.

        With ``rows`` the rows that learners draw are saved in any case. Where all of the run is
        saved, rows that were sampled since are a reason to save, too, and once it has ``ended``
        what members hold; elsewhere it is at the end what triggers remember, and what was set. A
        version that the learner has published but not reported waits: its counters would be too
        old. The next save is due late enough that saving takes at most a hundredth of the time,
        but for the first few of a run.
        """
        began = self._clock.now()
        self._keep_best()  # a run that goes on from this checkpoint does not evaluate it again
        remembered, forgotten = saved_triggers.remembered(self._triggers)
        configuration = self._coordinator.configuration
        ends = (rows or ended) and self._saved[0] >= 0 and not self._saved_states
        rows = (rows or self._whole) and self._plan.keeps_rows
        steps = self._coordinator.steps if self._whole or rows else 0
        moment = self._node.weights.version, steps, *saved_learners.versions(self._coordinator)
        of_table = remembered, configuration
        due = moment > self._saved or (ends and of_table != self._of_table)
        snapshot = self._snapshot() if self._whole and (due or ended) else None
        if due or (snapshot is not None and not self._saved_states):
            others = saved_learners.taken(self._coordinator)
            with self._node.newest() as (slot, *pasts):
                if others is None or not self._coordinator.first.has_booked(slot.firing):
                    return
                arrays = {name: array.copy() for name, array in slot.arrays.items()}
                past = checkpoint.past_arrays(pasts, self._node.weights.spec.public)
            self._list()  # a run that is killed now does not make again what it has up to here
            with self._gaps.allowed(_CHECKPOINT, _SINCE):
                objects = self._coordinator.objects.newest()
                values = {f"{OBJECT}{name}": found.value for name, found in objects.items()}
                saved = named(arrays, self._plan) | values | past | others.arrays
                manifest = self._manifest(slot.version, objects, others, forgotten, rows)
                manifest = replace(manifest, triggers=remembered, configuration=configuration)
                self._save(saved, manifest, snapshot, rows=rows)
                self._saved, self._of_table = moment, of_table
            wanted = (self._clock.now() - began) / _CHECKPOINT_SHARE
            self._pause = max(_CHECKPOINT_SECONDS, min(wanted, _GROWTH * self._pause))
            self._next_save = began + self._pause
        else:
            self._next_save = began + _CHECKPOINT_SECONDS

    def _save(
        self, arrays: dict[str, NDArray[Any]], manifest: Manifest, snapshot: Snapshot | None, *,
        rows: bool,
    ) -> None:  # fmt: skip
        """All of the run if there is a snapshot: members that are processes give one in the end."""
        folder, blocks = self._folder.checkpoint, self._node.blocks
        if snapshot is not None:
            self._episodes()  # its books count them
            found = (each for each in manifest.not_restored if each != _HELD)
            manifest = replace(
                manifest,
                without_states=Without(manifest.steps, manifest.restored, tuple(found)),
                steps=self._coordinator.steps,
                states_of=self._plan.checksums(),
                restored=(*RESTORED, *RESTORED_WITH_STATES),
                not_restored=snapshot.lost,
            )
            # Learners have them in their states, unless these are among what is lost.
            rated = self._node.priorities if snapshot.lost else ()
            checkpoint.save(folder, arrays, manifest, blocks, snapshot.data, rated)
        else:
            rated = self._node.priorities if rows else ()
            checkpoint.save(folder, arrays, manifest, blocks if rows else None, priorities=rated)
        self._saved_states = snapshot is not None

    def see_saved(self) -> None:
        """Check that the newest version is saved.

        Raises:
            NotSaved: it could not be saved at the end.
        """
        if why := self._gaps.why(_CHECKPOINT):
            raise NotSaved(str(self._folder.path), self._node.weights.version, why)

    def _manifest(
        self, version: int, objects: Mapping[str, Newest], others: saved_learners.Taken,
        forgotten: Sequence[str], rows: bool,
    ) -> Manifest:  # fmt: skip
        blocks = self._coordinator.ports.blocks.values()
        # A resumed run also lacks rows; if the learner draws them, that is the replay buffer.
        replayed = self._plan.on_full == "overwrite" or self._plan.draws_rows
        lacks: tuple[str, ...] = (
            *_NOT_RESTORED[:2],
            *([_REPLAY] if replayed else []),
            *([_EXPERIENCE] if self._plan.consumers or not replayed else []),
            *_NOT_RESTORED[2:],
            *forgotten,
        )
        if self._whole:
            lacks = (_HELD, *lacks)
        manifest = Manifest(
            workload=self._plan.name,
            env=self._plan.env,
            seed=self._plan.seed,
            version=version,
            steps=self._coordinator.progress.consumed,
            updates=self._coordinator.progress.updates,
            episodes=self._coordinator.monitor.episodes,
            unlisted=self._coordinator.monitor.unlisted,
            seconds=self.seconds,
            rows=tuple(map(handed_over, blocks)),
            incarnations=tuple(block.incarnation for block in blocks),
            resumes=self._plan.resumes,
            usage=msgspec.structs.asdict(self._bill()),
            objects={name: found.version for name, found in objects.items()},
            scaling=self._coordinator.concern(Scaling).scaler.kept,
            restored=RESTORED,
            not_restored=lacks,
            learners=others.learners,
            untold=(*self._coordinator.first.untold(version, objects), *others.untold),
            returns=taken(self._coordinator.concern(Returns)),
        )
        return with_rows(manifest) if rows else manifest

    def finish(self, outcome: str, *, why: str = "", curve: bool = True) -> Summary:
        """After the members have ended: save, write the last rows, the curve and the summary.

        A run that is not done also saves the rows that learners draw. ``curve`` False: neither
        these nor the curve, as the run ends in a hurry.
        """
        for member in self._plan.members.publishers:
            self._coordinator.book_finished(member)
        self._next_bill = self._clock.now()
        status = self.status()
        self._write(status, last=True)
        self.save(rows=outcome != "done" and curve)
        self._log.close()
        if curve:
            draw(self._folder)
        monitor, evaluations = self._coordinator.monitor, self._coordinator.concern(Evaluation)
        first = monitor.first_step
        rows = self._plan.rows_of(self._plan.learner).envs / self._plan.envs
        drawn, made = monitor.rows_drawn, self._coordinator.progress.made * rows
        summary = Summary(
            status,
            self._bill(),
            self._plan.seed,
            outcome=outcome,
            not_restored=self._before.not_restored if self._before else (),
            actors_by_update=tuple(monitor.actors_by_update),
            lag_by_actor=monitor.lag_by_actor(spread=True),
            lag_histogram=monitor.lag.histogram,
            times_by_member=monitor.times.by_member(),
            progress=flatten(status),
            wall_seconds=age(),
            first_step_seconds=None if first is None else age() - (self._clock.now() - first),
            replay_ratio=drawn / made if drawn and made else None,
            why=why,
            ended_by=self._coordinator.ending.why if outcome == "done" else "",
            evaluation=tuple(evaluations.found),
            best=evaluations.best,
            evaluations_skipped=evaluations.skipped,
            evaluations_failed=evaluations.failure,
            device=monitor.devices[self._plan.learner].name or self._plan.device,
            devices=self._devices(),
            leases_lost=sum(device.lost for device in monitor.devices.values()),
            epoch=self._epoch,
        )
        if lacks := self._gaps.why(_CHECKPOINT):
            why = why or f"the newest weights could not be saved: {lacks}"
            summary = replace(summary, outcome="failed", why=why)
        with self._gaps.allowed("summary.json", "it is missing"):
            self._folder.write_summary(summary)
        with self._gaps.allowed("events/", "their end is missing"):
            self._telling.files(self._folder.path)
            self._board.close(summary.outcome)
        return summary


def with_rows(manifest: Manifest) -> Manifest:
    """What is restored if the rows that learners draw are there."""
    lacks = (_DRAWS if each == _REPLAY else each for each in manifest.not_restored)
    return replace(
        manifest, restored=(*manifest.restored, RESTORED_ROWS), not_restored=tuple(lacks)
    )


def lacking_rows(manifest: Manifest, why: str) -> Manifest:
    """What is restored if the rows that were saved cannot be used."""
    lacks = (f"{_REPLAY}: {why}" if each == _DRAWS else each for each in manifest.not_restored)
    there = tuple(each for each in manifest.restored if each != RESTORED_ROWS)
    return replace(manifest, restored=there, not_restored=tuple(lacks))


def lacking_priorities(manifest: Manifest, why: str) -> Manifest:
    """What is restored if the rows that were saved are there, and not their priorities."""
    return replace(manifest, not_restored=(*manifest.not_restored, f"{_PRIORITIES}: {why}"))


def named(arrays: dict[str, NDArray[Any]], plan: Plan) -> dict[str, NDArray[Any]]:
    """A checkpoint's arrays: the learner's state, and each parameter under its own name."""
    saved = {name: array for name, array in arrays.items() if name != "params"}
    at = 0
    for name, shape in plan.layout:
        size = 1
        for side in shape:
            size *= side
        saved[f"model.{name}"] = arrays["params"][at : at + size].reshape(shape)
        at += size
    return saved


def flattened(saved: dict[str, NDArray[Any]], plan: Plan) -> dict[str, NDArray[Any]]:
    """The inverse of ``named``."""
    parts = [saved[f"model.{name}"].reshape(-1) for name, _ in plan.layout]
    apart = ("model.", OBJECT, *(f"{name}/" for name in plan.learners[1:]))
    arrays = {n: array for n, array in saved.items() if not n.startswith(apart)}
    return arrays | {"params": np.concatenate(parts)}
