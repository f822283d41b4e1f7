"""Entry point of a transfer agent: ``python -P -m workers.agent ORDERS LEASH``."""

from __future__ import annotations

import faulthandler
import sys
from typing import Any

from artos.system.logging_setup import logging_to, to_stderr
from workers.agent.agent import serve


def main() -> int:
    """Ship and fetch until told to finish, or until the executor is gone and all is shipped."""
    faulthandler.enable()
    with logging_to(to_stderr):
        return serve(sys.argv[1], int(sys.argv[2]), _load)


def _load(source: str, folder: str) -> Any:
    """A trigger class of the user's, whose code is loaded only where the table has one."""
    from artos.runtime.reference import load_object  # noqa: PLC0415

    return load_object(source, folder)


if __name__ == "__main__":
    sys.exit(main())
