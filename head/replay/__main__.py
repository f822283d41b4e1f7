"""Entry point of a replay process: ``python -m head.replay ORDERS CONTROL_PIPE``."""

from __future__ import annotations

import sys

from artos.system.child import begin_member
from artos.system.logging_setup import logging_to, to_stderr


def main() -> int:
    """Receive experience and send weights until the run process ends."""
    begin_member()
    # A long import, so it comes only now: if the parent dies during it, this process dies as well.
    from head.replay.replay import serve  # noqa: PLC0415

    with logging_to(to_stderr):
        return serve(sys.argv[1], int(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
