"""A cluster in a terminal: shows the head's answers as tables."""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from msgspec import UNSET
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from artos.protocol.views import ClusterView, NodeView, QuotaView, RunView
from artos.system.printable import one_line, printable
from deploy.client.submit import progress
from deploy.display.screen import other_learners
from head.daemon.quotas import WORDS

_WIDTH = 120
_NOTHING = "no run was submitted"
_SHOWN = (
    "name", "user", "state", "outcome", "waits_for", "why", "placement", "restarts", "folder",
)  # fmt: skip


def cluster(found: ClusterView, nothing: str = _NOTHING) -> RenderableType:
    """Nodes and runs, and the faults survived; ``nothing`` is shown if there are no runs."""
    parts = [nodes(found.nodes), Text(), runs(found.runs, nothing)]
    if found.quotas:
        parts += [Text(), quotas(found.quotas)]
    if survived := _survived(found):
        parts += [Text(), Text(survived)]
    return Group(*parts)


def _survived(found: ClusterView) -> str:
    """A line for each process that had faults or refused messages, "" if there were none."""
    counts = {"the head": (found.faults, found.malformed)}
    counts |= {f"worker {node.name}": (node.faults, node.malformed) for node in found.nodes}
    counts |= {f"run {run.name}": _faults(run) for run in found.runs}
    lines = [
        f"{who} survived {faults} faults, {malformed} malformed messages; see its log"
        for who, (faults, malformed) in counts.items()
        if faults or malformed
    ]
    return "\n".join(map(one_line, lines))


def _faults(run: RunView) -> tuple[int, int]:
    """How many faults its processes survived, and how many messages they refused."""
    if (facts := run.progress) is None:
        return 0, 0
    return (
        0 if facts.faults is UNSET else facts.faults,
        0 if facts.malformed is UNSET else facts.malformed,
    )


def nodes(found: Iterable[NodeView]) -> RenderableType:
    """A line per node."""
    found = [*found]
    labels, devices = any(n.labels for n in found), any(n.devices for n in found)
    words = (*(("devices",) if devices else ()), *(("labels",) if labels else ()))
    table = table_of("node", "state", "slots", "actors", "CPU", "memory", "runs", *words)
    for node in found:
        state = "alive" if node.alive else f"gone for {node.silent_seconds:.0f} s"
        if not node.alive and node.leaves:
            state += f": {node.leaves}"
        if node.alive and node.seconds_left:
            minutes = int(node.seconds_left // 60)
            state = f"alive, for {minutes // 60}:{minutes % 60:02} h"
        if node.alive and node.leaves:
            state = node.leaves
        if node.alive and (ahead := node.clock_ahead):
            state += f", its clock {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}"
        shares = (f"{node.cpu:.0%}", f"{node.memory:.0%}") if node.alive else ("", "")
        counts = ", ".join(f"{run} {count}" for run, count in node.runs.items())
        more = {"devices": node.devices, "labels": ", ".join(node.labels)}
        shown = [more[word] for word in words]
        _add(table, node.name, state, _slots(node), node.actors, *shares, counts, *shown)
    return table if table.row_count else Text("there are no workers")


def _slots(node: NodeView) -> str:
    slots, runs = node.slots, node.slots * node.runs_per_slot
    return f"{slots}" if runs == slots else f"{slots} for {runs} runs"


def runs(found: Iterable[RunView], nothing: str = _NOTHING) -> RenderableType:
    """A line per run."""
    table = table_of("run", "user", "state", "actors", "nodes", "restarts", "about")
    for each in found:
        state = each.state if each.outcome in ("", each.state) else each.outcome
        _add(
            table,
            each.name,
            each.user,
            state,
            each.actors or "",
            ", ".join(
                f"{node} (learner)" if node == each.carrier else node
                for node in sorted({*each.nodes, *filter(None, [each.carrier])})
            ),
            each.restarts or "",
            _about(each),
        )
    return table if table.row_count else Text(nothing)


def quotas(found: Mapping[str, Mapping[str, QuotaView]]) -> RenderableType:
    """A line per user or workload under a quota: what it holds, of how much."""
    table = table_of("quota", *WORDS.values())
    for whose, limits in found.items():
        cells = [
            f"{each.held:,.10g} of {each.limit:,.10g}" if (each := limits.get(name)) else ""
            for name in WORDS
        ]
        _add(table, whose, *cells)
    return table


def _about(run: RunView) -> str:
    if run.waits_for:
        return f"waits for {run.waits_for}"
    if run.why:
        return run.why.splitlines()[0].removesuffix("; its last output:")
    return progress(run.progress, over=bool(run.outcome)) if run.progress else ""


def run(found: RunView) -> RenderableType:
    """Everything about one run."""
    table = Table.grid(padding=(0, 2))
    for name in _SHOWN:
        if value := getattr(found, name):
            table.add_row(Text(name.replace("_", " "), "dim"), Text(printable(str(value))))
    where = ", ".join(f"{count} on {node}" for node, count in found.nodes.items())
    if where or not found.outcome:
        where = where or str(found.actors or "nowhere")
        table.add_row(Text("actors", "dim"), Text(one_line(where)))
    if found.carrier:
        table.add_row(Text("learner", "dim"), Text(one_line(f"on {found.carrier}")))
    if found.progress:
        said = progress(found.progress, over=bool(found.outcome))
        table.add_row(Text("progress", "dim"), Text(one_line(said)))
        for name, known in other_learners(found.progress).items():
            table.add_row(Text(one_line(name), "dim"), Text(one_line(known)))
    for name, count in zip(("faults", "malformed"), _faults(found), strict=True):
        if count:
            table.add_row(Text(name, "dim"), Text(str(count)))
    return table


def text(picture: RenderableType) -> str:
    """Plain text, as wide as the terminal if standard output is one."""
    width = shutil.get_terminal_size((_WIDTH, 0)).columns if sys.stdout.isatty() else _WIDTH
    with io.StringIO() as stream:
        Console(file=stream, width=width, highlight=False).print(picture)
        return stream.getvalue().rstrip()


def live(look: Callable[[], ClusterView], seconds: float, nothing: str) -> None:
    """Show nodes and runs until Ctrl-C."""
    with suppress(KeyboardInterrupt), Live(auto_refresh=False, screen=True) as view:
        while True:
            view.update(cluster(look(), nothing), refresh=True)
            time.sleep(seconds)


def _add(table: Table, *cells: object) -> None:
    """Add a row of untrusted text: control characters and markup in it have no effect."""
    table.add_row(*(Text(one_line(str(cell))) for cell in cells))


def table_of(*columns: str) -> Table:
    """An empty table with these columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 2))
    for column in columns:
        table.add_column(column, no_wrap=column not in ("about", "waited"))
    return table
