"""Entry point of member processes: ``python -m artos.runtime.process SITE PLAN_FILE``."""

from __future__ import annotations

import sys

from artos.system.child import begin_member


def main() -> int:
    """Set up, report ``Ready``, serve until told to stop."""
    begin_member()
    # Slow imports only now: if the parent dies meanwhile, this process ends too.
    from artos.runtime.serving import serve_site  # noqa: PLC0415

    return serve_site(sys.argv[1], sys.argv[2])


if __name__ == "__main__":
    sys.exit(main())
