"""A cluster in a terminal: shows the head's answers as tables."""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from artos.system.printable import one_line, printable
from deploy.client.submit import progress
from head.daemon.quotas import WORDS

_WIDTH = 120
_NOTHING = "no run was submitted"
_FACTS = (
    "name", "user", "state", "outcome", "waits_for", "why", "placement", "restarts", "folder",
)  # fmt: skip


def cluster(status: Mapping[str, Any], nothing: str = _NOTHING) -> RenderableType:
    """Nodes, runs, quotas, and the faults survived; ``nothing`` is shown if there are no runs."""
    parts = [nodes(status["nodes"]), Text(), runs(status["runs"], nothing)]
    if found := status.get("quotas"):
        parts += [Text(), quotas(found)]
    who = {"the head": status}
    who |= {f"worker {node['name']}": node for node in status["nodes"]}
    who |= {f"run {run['name']}": run.get("facts", {}) for run in status["runs"]}
    words = {
        name: f"{each.get('faults') or 0} faults, {each.get('malformed') or 0} malformed messages"
        for name, each in who.items()
        if each.get("faults") or each.get("malformed")
    }
    lines = [one_line(f"{name} survived {what}; see its log") for name, what in words.items()]
    if lines:
        parts += [Text(), Text("\n".join(lines))]
    return Group(*parts)


def nodes(found: Iterable[Mapping[str, Any]]) -> RenderableType:
    """A line per node."""
    table = table_of("node", "state", "slots", "actors", "CPU", "memory", "runs")
    for node in found:
        state = "alive" if node["alive"] else f"gone for {node['silent_seconds']:.0f} s"
        if node["alive"] and node["leaves"]:
            state = node["leaves"]
        shares = (f"{node['cpu']:.0%}", f"{node['memory']:.0%}") if node["alive"] else ("", "")
        counts = ", ".join(f"{run} {count}" for run, count in node["runs"].items())
        most = node["slots"] * node.get("runs_per_slot", 1)
        slots = f"{node['slots']}" + (f" for {most} runs" if most != node["slots"] else "")
        _add(table, node["name"], state, slots, node["actors"], *shares, counts)
    return table if table.row_count else Text("there are no workers")


def runs(found: Iterable[Mapping[str, Any]], nothing: str = _NOTHING) -> RenderableType:
    """A line per run."""
    table = table_of("run", "user", "state", "actors", "nodes", "restarts", "about")
    for each in found:
        state = each["state"] if each["outcome"] in ("", each["state"]) else each["outcome"]
        _add(
            table,
            each["name"],
            each.get("user", ""),
            state,
            each["actors"] or "",
            ", ".join(each["nodes"]),
            each["restarts"] or "",
            _about(each),
        )
    return table if table.row_count else Text(nothing)


def quotas(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> RenderableType:
    """A line per user or workload under a quota: what it holds, and of how much."""
    table = table_of("quota", *WORDS.values())
    for whose, limits in found.items():
        cells = [
            f"{each['held']:,.10g} of {each['limit']:,.10g}" if (each := limits.get(name)) else ""
            for name in WORDS
        ]
        _add(table, whose, *cells)
    return table


def _about(run: Mapping[str, Any]) -> str:
    if run["waits_for"]:
        return f"waits for {run['waits_for']}"
    if run["why"]:
        return str(run["why"]).splitlines()[0]
    return _progress(run) if run.get("facts") else ""


def _progress(run: Mapping[str, Any]) -> str:
    return progress(run["facts"], over=bool(run["outcome"]))


def run(status: Mapping[str, Any]) -> RenderableType:
    """Everything about one run."""
    table = Table.grid(padding=(0, 2))
    for name in _FACTS:
        if status.get(name):
            table.add_row(Text(name.replace("_", " "), "dim"), Text(printable(str(status[name]))))
    where = ", ".join(f"{count} on {node}" for node, count in status["nodes"].items())
    if where or not status["outcome"]:
        where = where or str(status["actors"] or "nowhere")
        table.add_row(Text("actors", "dim"), Text(one_line(where)))
    if status["facts"]:
        table.add_row(Text("progress", "dim"), Text(one_line(_progress(status))))
    facts = status["facts"]
    for name in ("faults", "malformed"):
        if facts.get(name):
            table.add_row(Text(name, "dim"), Text(one_line(str(facts[name]))))
    return table


def text(picture: RenderableType) -> str:
    """Plain text, as wide as the terminal if standard output is one."""
    width = shutil.get_terminal_size((_WIDTH, 0)).columns if sys.stdout.isatty() else _WIDTH
    with io.StringIO() as stream:
        Console(file=stream, width=width, highlight=False).print(picture)
        return stream.getvalue().rstrip()


def live(status: Callable[[], Mapping[str, Any]], seconds: float, nothing: str) -> None:
    """Show nodes and runs until Ctrl-C."""
    with suppress(KeyboardInterrupt), Live(auto_refresh=False, screen=True) as view:
        while True:
            view.update(cluster(status(), nothing), refresh=True)
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
