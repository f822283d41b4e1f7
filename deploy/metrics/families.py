"""What is told of a cluster as families of metrics: names, words, kinds, and labelled numbers.

Pure. Names and units are those that Prometheus asks for: base units, ``_total`` for what only
grows, one meaning a family. A run is the label ``run``; what else is known of it is in
``artos_run_info``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import Literal

from artos.protocol.run_state import ACTIVE, OVER, QUEUED
from artos.protocol.views import ClusterView, RunFacts, RunView
from artos.system.printable import one_line
from deploy.launchers.demand import nodes_wanted
from head.records.told import waits_of

Kind = Literal["gauge", "counter", "histogram"]
LAGS = (0, *(2**digits - 1 for digits in range(1, 13)), inf)
"""Upper bounds of the classes of lags: 0, 1, 3, 7, ... 4095, all."""
_MB = 1_000_000


@dataclass(frozen=True)
class Histogram:
    """How many there were of at most each bound, the last of which is infinite, and their sum."""

    counts: Mapping[float, int]
    sum: float


@dataclass
class Family:
    """A metric. ``samples`` are its values by those of its ``labels``, each once."""

    name: str
    help: str
    kind: Kind
    labels: tuple[str, ...] = ()
    samples: dict[tuple[str, ...], float | Histogram] = field(default_factory=dict)

    def add(self, value: float | Histogram, *labels: str) -> None:
        """Add a sample; the first one of its labels is kept."""
        self.samples.setdefault(tuple(map(one_line, labels)), value)

    @property
    def plain(self) -> dict[str, object]:
        """All of it, as JSON has it."""
        samples = [
            {
                "labels": dict(zip(self.labels, labels, strict=True)),
                "value": {"counts": {str(k): v for k, v in value.counts.items()}, "sum": value.sum}
                if isinstance(value, Histogram)
                else value,
            }
            for labels, value in self.samples.items()
        ]
        return {"name": self.name, "kind": self.kind, "help": self.help, "samples": samples}


class _Families:
    def __init__(self) -> None:
        self.found: dict[str, Family] = {}

    def _add(
        self, kind: Kind, name: str, words: str, value: float | Histogram | None,
        labels: Mapping[str, str],
    ) -> None:  # fmt: skip
        if value is None:  # it is not known
            return
        name = f"artos_{name}"
        family = self.found.setdefault(name, Family(name, words, kind, tuple(labels)))
        family.add(value, *labels.values())

    def gauge(self, name: str, words: str, value: float | None, **labels: str) -> None:
        self._add("gauge", name, words, value, labels)

    def counter(self, name: str, words: str, value: float | None, **labels: str) -> None:
        self._add("counter", name, words, value, labels)

    def histogram(self, name: str, words: str, value: Histogram | None, **labels: str) -> None:
        self._add("histogram", name, words, value, labels)


def families(cluster: ClusterView) -> list[Family]:
    """The metrics of a cluster, its nodes, and its runs; of runs that are over, the state alone."""
    add = _Families()
    add.gauge("build_info", "Version of ARTOS.", 1, version=cluster.version)
    add.counter("faults", "Faults that the head survived.", cluster.faults)
    add.counter("malformed_messages", "Messages that the head refused.", cluster.malformed)
    add.gauge("nodes_wanted", "Workers that runs have a use for.", nodes_wanted(cluster))
    slots = Counter({"": 0})
    for run in cluster.runs:
        slots[",".join(sorted({*run.where}))] += run.wants
    for where, wanted in slots.items():
        add.gauge(
            "slots_wanted", "CPU slots that runs have a use for, by the labels that they ask for.",
            wanted, where=where,
        )  # fmt: skip
    for node in cluster.nodes:
        name = node.name
        add.gauge("node_up", "Whether the node is heard.", float(node.alive), node=name)
        add.gauge("node_slots", "CPU slots for actors.", node.slots, node=name)
        add.gauge("node_actors", "Actors on the node.", node.actors, node=name)
        add.gauge("node_cpu_ratio", "Share of the node's CPU in use.", node.cpu, node=name)
        add.gauge("node_memory_ratio", "Share of its memory in use.", node.memory, node=name)
        add.gauge("node_memory_bytes", "Its memory.", node.memory_mb * 2**20, node=name)
        add.gauge(
            "node_silent_seconds", "Since the node was heard.", node.silent_seconds, node=name
        )
        add.counter("node_faults", "Faults that its daemon survived.", node.faults, node=name)
        add.counter(
            "node_malformed_messages", "Messages that it refused.", node.malformed, node=name
        )
    for owner, quotas in cluster.quotas.items():
        for of, quota in quotas.items():
            labels = {"owner": owner, "of": of}
            add.gauge(
                "quota_held", "How much is held of what a quota limits.", quota.held, **labels
            )
            add.gauge("quota_limit", "The quota.", quota.limit, **labels)
    for run in cluster.runs:
        _state(add, run)
        if not run.outcome:
            _run(add, run)
    return list(add.found.values())


def families_of(run: RunView) -> list[Family]:
    """The metrics of one run, also of one that is over; nothing of the cluster that it is on."""
    add = _Families()
    _state(add, run)
    _run(add, run)
    return list(add.found.values())


def _state(add: _Families, run: RunView) -> None:
    for state in (QUEUED, *ACTIVE, *OVER):
        add.gauge(
            "run_state", "1 for the state that a run is in, 0 for the others.",
            float(run.state == state), run=run.name, state=state,
        )  # fmt: skip


def _run(add: _Families, run: RunView) -> None:
    name, facts = run.name, run.progress or RunFacts()
    add.gauge(
        "run_info", "Whose run it is, and of what.", 1,
        run=name, user=run.user, algorithm=facts.algorithm, env=facts.env,
    )  # fmt: skip
    add.gauge("run_actors", "Actors that take part now.", run.actors, run=name)
    add.gauge("run_slots_wanted", "Slots that its actors would use.", run.wants, run=name)
    add.counter("run_process_restarts", "Further starts of its process.", run.restarts, run=name)
    for node, actors in run.nodes.items():
        add.gauge("run_node_actors", "Its actors on a node.", actors, run=name, node=node)
    if run.progress:
        for metric, words, count in (
            ("run_steps", "Environment steps.", facts.steps),
            ("run_updates", "Updates of the first learner.", facts.updates),
            ("run_episodes", "Episodes that ended.", facts.episodes),
            ("run_training_seconds", "Seconds of training.", facts.seconds),
            ("run_member_restarts", "Further starts of members that ended.", facts.restarts),
            ("run_rows_lost", "Rows lost with an actor.", facts.rows_lost),
            ("run_rows_stale", "Rows that were too old to learn from.", facts.rows_stale),
            ("run_empty_draws", "Draws that found no row.", facts.empty_draws),
            ("run_faults", "Faults that its processes survived.", facts.faults or 0),
            ("run_malformed_messages", "Messages that they refused.", facts.malformed or 0),
        ):
            add.counter(metric, words, count, run=name)
        for target, count in facts.skipped.items():
            words = "Firings that came faster than the learner works."
            add.counter("run_firings_skipped", words, count, run=name, target=target)
        add.gauge(
            "run_steps_limit", "Steps after which it ends.", facts.total_steps or None, run=name
        )
        add.gauge(
            "run_updates_limit",
            "Updates after which it ends.",
            facts.total_updates or None,
            run=name,
        )
        for key, share in facts.fill.items():
            words = "Share of the buffer that holds rows not yet released."
            add.gauge("run_buffer_fill_ratio", words, share, run=name, key=key)
        _learning(add, name, facts)
        _times(add, name, facts)
        _bill(add, name, facts)


def _learning(add: _Families, run: str, facts: RunFacts) -> None:
    add.gauge(
        "run_mean_return", "Mean return of the last 100 episodes.", facts.mean_return_100, run=run
    )
    for agent, value in facts.returns.items():
        words = "Mean return of the last 100 episodes of an agent."
        add.gauge("run_agent_mean_return", words, value, run=run, agent=agent)
    for name, words in (
        ("version", "Version that was evaluated last."),
        ("mean_return", "Mean return of the newest evaluation."),
    ):
        add.gauge(f"run_evaluation_{name}", words, facts.evaluation.get(name), run=run)
    words = "Newest version of the policy, by learner; of the first one the label is empty."
    add.gauge("run_policy_version", words, facts.version, run=run, learner="")
    for name, value in facts.learners.items():
        learner, _, what = name.rpartition(".")
        if what == "version":
            add.gauge("run_policy_version", words, value, run=run, learner=learner)
        elif what == "updates":
            words_of = "Updates of a learner beside the first."
            add.counter("run_learner_updates", words_of, value, run=run, learner=learner)
    for metric, value in facts.metrics.items():
        words_of = "What the newest update returned."
        add.gauge("run_learner_metric", words_of, value, run=run, metric=metric)
    for setting, value in facts.settings.items():
        words_of = "Settings that were changed while the run went."
        add.gauge("run_setting", words_of, value, run=run, setting=setting)
    add.histogram(
        "run_lag_versions", "Rows that the first learner learned from, by policy lag.",
        _lags(facts), run=run,
    )  # fmt: skip


def _times(add: _Families, run: str, facts: RunFacts) -> None:
    for kind, seconds in facts.times.items():
        words = "Where members' seconds went, by kind; waits by role."
        add.counter("run_time_seconds", words, seconds, run=run, kind=kind)
    for kind, by_class in waits_of(facts.waited).items():
        words = "How long members waited, by role and by what for."
        waits = _histogram(by_class, facts.times.get(kind, 0.0))
        add.histogram("run_wait_seconds", words, waits, run=run, kind=kind)


def _bill(add: _Families, run: str, facts: RunFacts) -> None:
    for what, unit, name, words in (
        ("cpu_seconds_held", 1, "run_cpu_held_seconds", "Seconds for which actors held slots."),
        ("cpu_seconds_used", 1, "run_cpu_used_seconds", "CPU seconds that actors used."),
        ("device_seconds_held", 1, "run_device_held_seconds", "Seconds that learners had devices."),
        ("device_seconds_used", 1, "run_device_used_seconds", "Seconds that they computed there."),
        ("parked_mb_seconds", _MB, "run_parked_byte_seconds", "Memory that idle actors kept."),
        ("bytes_moved", 1, "run_moved_bytes", "Experience and weights between nodes."),
    ):
        if what in facts.usage:
            add.counter(name, words, facts.usage[what] * unit, run=run)
    for name, seconds in facts.usage.items():
        if name.startswith("waits/"):
            cause, words = name.removeprefix("waits/"), "Seconds waited for a cause, as billed."
            add.counter("run_billed_wait_seconds", words, seconds, run=run, cause=cause)


def _lags(facts: RunFacts) -> Histogram | None:
    if not facts.lags or facts.lag_mean is None:
        return None
    counts = dict.fromkeys(LAGS, 0)
    for name, rows in facts.lags.items():
        largest = int(name.rpartition("-")[2])
        counts[next(bound for bound in LAGS if largest <= bound)] += rows
    return _histogram(counts, facts.lag_mean * sum(facts.lags.values()))


def _histogram(counts: Mapping[float, int], total: float) -> Histogram:
    """From the counts of each class, none of which counts in another."""
    bounds = sorted(counts)
    below = accumulate(counts[bound] for bound in bounds)
    return Histogram(dict(zip(bounds, below, strict=True)), total)
