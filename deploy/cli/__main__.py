"""Where the ``artos`` command begins: Ctrl-C ends it quietly also while it is imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from artos.system.signals import forget_interrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    try:
        from deploy.cli.entry import main as command  # noqa: PLC0415

        return command(arguments)
    except KeyboardInterrupt:
        forget_interrupt()
        return 130  # ExitStatus.INTERRUPTED, which may not be imported yet


if __name__ == "__main__":
    sys.exit(main())
