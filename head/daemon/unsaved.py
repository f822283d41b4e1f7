"""The rows of the head's state that have changed and are not saved yet. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class Table(StrEnum):
    """What a row holds: ``Run``, ``Known``, ``Account``, ``Seconds``, ``Quotas``, a plain value."""

    RUN = "run"
    NODE = "node"
    ACCOUNT = "account"
    SPENT = "spent"
    QUOTAS = "quotas"
    FAIR_TURNS = "fair turns"
    BOOT = "boot"


class Unsaved:
    """Rows by table and name, in the order in which they came, and the names of rows to delete.

    Code that changes a row names it here, so that no one has to search for what changed. A row is
    encoded only when it is saved, so it may change until then. Deletions are saved first: a row
    that was dropped and put again is the last one.
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[Table, str], Any] = {}
        self.gone: dict[tuple[Table, str], None] = {}

    def __repr__(self) -> str:
        return f"<Unsaved rows={len(self.rows)} gone={len(self.gone)}>"

    def put(self, table: Table, name: str, row: Any) -> None:
        """Save this row, which is new or has changed."""
        self.rows[table, name] = row

    def drop(self, table: Table, name: str) -> None:
        """Delete this row, if there is one."""
        self.rows.pop((table, name), None)
        self.gone[table, name] = None

    def clear(self) -> None:
        """Forget everything: it is saved."""
        self.rows.clear()
        self.gone.clear()
