"""Entry point of a transfer agent that may load triggers of users: see ``workers.agent``."""

from __future__ import annotations

import faulthandler
import sys

from artos.logging_setup import logging_to, to_stderr


def main() -> int:
    """Ship and fetch until told to finish, or until the site is gone and all is shipped."""
    faulthandler.enable()
    from artos.runtime.reference import load_object  # noqa: PLC0415  # only where it is needed
    from workers.agent.agent import serve  # noqa: PLC0415

    with logging_to(to_stderr):
        return serve(sys.argv[1], int(sys.argv[2]), load_object)


if __name__ == "__main__":
    sys.exit(main())
