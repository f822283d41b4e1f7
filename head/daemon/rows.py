"""The head's state as rows in SQLite: one for each run, node, account and used quota."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from artos.pool.accounts import Account
from head.daemon.quotas import Quotas
from head.daemon.roster import Known
from head.daemon.run import Run, Seconds, State
from head.daemon.run_queue import QueueState
from head.daemon.unsaved import Table, Unsaved

CREATE = """CREATE TABLE rows (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL,
    value BLOB NOT NULL, UNIQUE (kind, name))"""
"""A row that is put again keeps its number; one that was deleted before gets the highest."""
_READ = "SELECT kind, name, CAST(value AS BLOB) FROM rows ORDER BY number"
_DELETE = "DELETE FROM rows WHERE kind = ? AND name = ?"
_PUT = """INSERT INTO rows (kind, name, value) VALUES (?, ?, ?)
    ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value"""
_TYPES: dict[Table, type] = {
    Table.RUN: Run,
    Table.NODE: Known,
    Table.ACCOUNT: Account,
    Table.SPENT: Seconds,
    Table.QUOTAS: Quotas,
    Table.FAIR_TURNS: int,
    Table.BOOT: str,
}


def put(db: sqlite3.Connection, changes: Unsaved) -> None:
    """Delete and write rows.

    Raises:
        sqlite3.Error: there is no room, or the file cannot be written.
        ValueError: a row holds what JSON does not.
    """
    db.executemany(_DELETE, changes.gone)
    rows, encode = changes.rows.items(), msgspec.json.encode
    db.executemany(_PUT, ((table, name, encode(row)) for (table, name), row in rows))


def read(db: sqlite3.Connection) -> State:
    """The state that all rows make.

    Raises:
        sqlite3.Error, ValueError, UNREADABLE: the rows are damaged.
    """
    (health,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if health != "ok":
        raise ValueError(health.splitlines()[-1])
    rows: dict[Table, dict[str, Any]] = {table: {} for table in Table}
    for kind, name, value in db.execute(_READ):
        table = Table(kind)
        rows[table][name] = msgspec.json.decode(value, type=_TYPES[table])
    runs, nodes, accounts = (
        tuple(rows[table].values()) for table in (Table.RUN, Table.NODE, Table.ACCOUNT)
    )
    queue = QueueState(accounts, rows[Table.FAIR_TURNS].get("", 0))
    quotas = rows[Table.QUOTAS].get("", Quotas())
    return State(runs, nodes, queue, quotas, rows[Table.SPENT], rows[Table.BOOT].get("", ""))


def all_of(state: State) -> Unsaved:
    """All rows of a state."""
    rows = Unsaved()
    for run in state.runs:
        rows.put(Table.RUN, run.name, run)
    for node in state.nodes:
        rows.put(Table.NODE, node.name, node)
    for account in state.queue.accounts:
        rows.put(Table.ACCOUNT, account.workload, account)
    for name, spent in state.spent.items():
        rows.put(Table.SPENT, name, spent)
    rows.put(Table.QUOTAS, "", state.quotas)
    rows.put(Table.FAIR_TURNS, "", state.queue.fair_turns)
    rows.put(Table.BOOT, "", state.boot)
    return rows
