"""Whether processes stand still, by what the kernel says of their threads."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from workers.actors.idle_tiers import family


def is_frozen(pid: int) -> bool:
    """Whether every thread of the process and of its descendants stands still. False if dead."""
    states = {each: _states(each) for each in family(pid)}
    return "T" in states[pid] and set[str]().union(*states.values()) <= set("TZX")


def _states(pid: int) -> set[str]:
    """States of a process's threads, by the letters of proc(5)."""
    found = set[str]()
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                # The command's name comes before it and may hold anything, also brackets.
                found.add((task / "stat").read_text().rpartition(") ")[2][0])
    return found
