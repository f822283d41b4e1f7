"""One run of the ``artos`` command, for as long as its folder is read."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from deploy.cli.__main__ import main as artos


@contextlib.contextmanager
def trained(arguments: Sequence[str]) -> Iterator[Path]:
    """Train with these arguments of ``artos``; the run's folder lasts as long as the block.

    Raises:
        SystemExit: the run failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "run")
        with contextlib.redirect_stdout(io.StringIO()):
            status = artos([*arguments, "--run-dir", str(folder), "--json"])
        if status:
            raise SystemExit(status)
        yield folder


def summary_of(folder: Path) -> dict[str, Any]:
    """What the run says of itself."""
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found
