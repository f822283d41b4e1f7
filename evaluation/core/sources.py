"""What a benchmark measures of this repository, so that a figure of older code is known as such."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from head.records.provenance import commit_of

ROOT = Path(__file__).parents[2]
CODE = ("artos", "deploy", "evaluation", "head", "triggers", "workers")


def commit() -> str:
    """The commit that is measured, with ``+`` if files were changed since; empty without git."""
    found = commit_of(ROOT)
    return f"{found['commit']}{'+' * found['changed']}" if found else ""


def digests(paths: Iterable[str]) -> dict[str, str]:
    """A digest of the Python files of each folder or file, by its path in the repository.

    The contents count, not the commits: these get other names when they are rebased, and a clone
    may lack them.
    """
    return {path: _digest(ROOT / path) for path in paths}


def changed(measured: Mapping[str, str], paths: Iterable[str]) -> list[str]:
    """The paths whose contents are not those that were measured."""
    return [path for path, now in digests(paths).items() if measured.get(path) != now]


def _digest(path: Path) -> str:
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(ROOT)}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
