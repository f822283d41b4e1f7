"""Entry point of a replay process: ``python -m head.replay.process ORDERS LEASH``."""

from __future__ import annotations

import sys

from artos.logging_setup import logging_to, to_stderr
from artos.runtime.child import begin_member


def main() -> int:
    """Take in experience and hand out weights until the run process ends."""
    begin_member()
    # Only now what takes long to import: a parent that dies meanwhile takes this process along.
    from head.replay.replay import serve  # noqa: PLC0415

    with logging_to(to_stderr):
        return serve(sys.argv[1], int(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
