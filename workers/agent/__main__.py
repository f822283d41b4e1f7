"""Entry point of a transfer agent: ``python -P -m workers.agent ORDERS CONTROL_PIPE``."""

from __future__ import annotations

import faulthandler
import sys
from typing import Any

from artos.system.child import ignore_sigterm
from artos.system.logging_setup import logging_to, to_stderr
from workers.agent.agent import serve


def main() -> int:
    """Ship rows and fetch weights until told to finish, or until the executor is gone."""
    faulthandler.enable()
    ignore_sigterm()
    with logging_to(to_stderr):
        return serve(sys.argv[1], int(sys.argv[2]), _load)


def _load(source: str, folder: str) -> Any:
    """Load a trigger class of the user; user code is loaded only if the table names any."""
    from artos.runs.loader import load_object  # noqa: PLC0415

    return load_object(source, folder)


if __name__ == "__main__":
    sys.exit(main())
