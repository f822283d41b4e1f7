"""``artos pool``: who holds this machine's devices and slots, and who waits for them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from artos.runs.exit_status import ExitStatus
from artos.system.printable import printable
from deploy.cli.common import add_json, columns, print_json
from deploy.cli.parser import Parser

if TYPE_CHECKING:
    from artos.pool.view import HolderView, PoolView, WaitingView


def add_to(parser: Parser) -> None:
    """Add the flags of ``artos pool``."""
    add_json(parser)
    parser.set_defaults(command=show_pool)


def show_pool(options: argparse.Namespace) -> int:
    """``artos pool``: who holds this machine's devices and slots."""
    from artos.pool.view import read_pool  # noqa: PLC0415

    view = read_pool()
    if options.json:
        print_json(view)
    else:
        print(printable(text(view)))
    return ExitStatus.DONE


def text(view: PoolView) -> str:
    """The pool as text: resources and holders, the queue, and what workloads have held."""
    if not view.resources:
        return "nothing is leased on this machine"
    resources = [("resource", "held", "memory", "by")]
    for each in view.resources:
        holders = [_holder(who) for who in view.holders if who.resource == each.name]
        idle = f", {each.memory_idle_mb} idle" if each.memory_idle_mb else ""
        memory = f"{each.memory_taken_mb}/{each.memory_mb} MB{idle}" if each.memory_mb else "-"
        held = f"{each.holders}/{each.share}"
        resources.append((each.name, held, memory, ", ".join(holders) or "-"))
    queue = [("waiting for", "workload", "process", "weight", "priority", "since", "lacks")]
    queue += [
        (
            " and ".join((who.what, *who.beside)),
            who.workload,
            f"{who.pid} {who.process}",
            f"{who.weight:g}",
            str(who.priority),
            f"{who.waited_seconds:.1f} s",
            _lacks(who),
        )
        for who in view.queue
    ]
    workloads = [("workload", "kind", "weight", "held", "turns", "waits", "waited")]
    workloads += [
        (
            each.workload,
            each.kind,
            f"{each.weight:g}",
            f"{each.held_seconds:.1f} s",
            str(each.turns),
            str(each.waits),
            f"{each.waited_for_turn_seconds + each.waited_for_memory_seconds:.1f} s",
        )
        for each in view.workloads
    ]
    tables = (rows for rows in (resources, queue, workloads) if len(rows) > 1)
    return "\n\n".join("\n".join(columns(rows)) for rows in tables)


def _holder(who: HolderView) -> str:
    late = who.left_seconds is not None and who.left_seconds < 0
    since = f"{who.held_seconds:.1f} s{', late' if late else ''}"
    return f"{who.workload} (process {who.pid} {who.process}, {since})"


def _lacks(who: WaitingView) -> str:
    if who.missing:
        return "; ".join(who.missing)
    by = f", held by {'; '.join(who.held_by)}" if who.held_by else ""
    return f"{who.lacks_mb} MB of memory{by}" if who.lacks_mb else who.why
