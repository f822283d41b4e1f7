"""``artos keys``: make, add and revoke the keys of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from artos.transport import keys


@dataclass(frozen=True)
class Report:
    """The state of a folder of keys: new files, the revoked node ("" if none), nodes let in."""

    folder: str
    made: list[str]
    revoked: str
    nodes: list[str]


def change(folder: Path, add: str | None, revoke: str | None) -> Report:
    """Revoke a node's key, add one, or (told neither) make what a cluster needs.

    Raises:
        Refused: see ``artos.transport.keys``.
    """
    made: list[Path] = []
    if revoke:
        keys.revoke(folder, revoke)
    if add or not revoke:
        made = keys.make_keys(folder, add or keys.DEFAULT)
    return Report(str(folder), [str(path) for path in made], revoke or "", keys.names(folder))


def text(report: Report) -> str:
    """The report in words."""
    lines = [f"made {path}" for path in report.made]
    if report.revoked:
        lines.append(f"revoked {report.revoked}: it gets nothing from now on")
    lines.append(f"nodes with a key: {', '.join(report.nodes) or 'none'}")
    if report.made:
        secrets = [path for path in report.made if "/nodes/" in path and path.endswith("_secret")]
        lines.append(f"a worker needs {report.folder}/head.key and {' '.join(secrets)} only")
    return "\n".join(lines)
