"""Where a run comes from: command line, host, git commit, and versions of packages."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_GIT_SECONDS = 5.0


def origin(folder: Path) -> dict[str, Any]:
    """The command line, the host it was typed on, when, and the git commit of the user's folder."""
    program, *arguments = sys.orig_argv if sys.argv[0] == "-c" else sys.argv
    return {
        "command": shlex.join([Path(program).name, *arguments]),
        "host": platform.node(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "git": commit_of(folder),
    }


def host() -> dict[str, Any]:
    """The machine that the run's learner is on."""
    return {
        "name": platform.node(),
        "platform": platform.platform(),
        "cpus": len(os.sched_getaffinity(0)),
    }


def commit_of(folder: Path) -> dict[str, Any] | None:
    """The git commit of a folder, and whether files in it were changed since; None without git."""
    commit = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--", ".")
    if not commit or changes is None:
        return None
    return {"commit": commit, "changed": bool(changes)}


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Versions that differ from those a run began with, as text; new entries are left out."""
    for name in sorted(before.keys() & now.keys()):
        if before[name] != now[name]:
            yield f"{name} is {now[name]}, the run began with {before[name]}"


def _git(folder: Path, *arguments: str) -> str | None:
    """Git's output; None if git is missing, finds no repository, or takes too long."""
    try:
        done = subprocess.run(
            ["git", "-C", folder, *arguments],
            capture_output=True,
            text=True,
            errors="replace",  # a file may have any name
            check=True,
            timeout=_GIT_SECONDS,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
