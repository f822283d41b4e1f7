"""Entry point of a transfer agent: ``python -m workers.agent.process ORDERS LEASH``."""

from __future__ import annotations

import faulthandler
import sys
from typing import Any

from artos.errors import Refused
from artos.logging_setup import logging_to, to_stderr


def main() -> int:
    """Ship and fetch until told to finish, or until the site is gone and all is shipped.

    Only triggers of ours can be in the table's transfers here; ``deploy.agent_process`` also knows
    those of users.
    """
    faulthandler.enable()
    from workers.agent.agent import serve  # noqa: PLC0415  # heavy; --help of nothing needs it

    with logging_to(to_stderr):
        return serve(sys.argv[1], int(sys.argv[2]), _foreign)


def _foreign(source: str, folder: str) -> Any:
    raise Refused([f"{source} is no trigger of ours"])


if __name__ == "__main__":
    sys.exit(main())
