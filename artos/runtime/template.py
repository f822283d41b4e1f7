"""A workload's template: a process with everything prepared except which actor it is.

::

    python -P -m artos.runtime.template image SITE PLAN_FILE IDENTITY_FILE
    python -P -m artos.runtime.template fork SITE PLAN_FILE

``image`` also builds the environments, then sleeps, ready to be checkpointed: each clone of the
image (or, without images, the template itself) becomes an actor when it is told its identity.
``fork`` leaves the environments out, since a fork loses their threads, and forks on request. SITE
names the template's own member number, under which it reports ``Ready`` or ``Failed``.
"""

from __future__ import annotations

import sys

from artos.runtime.fork_server import ForkServer
from artos.runtime.identity import Sleeper, take_log
from artos.system.child import begin_member


def main() -> int:
    """Prepare, report, wait for an identity, serve as that actor; returns the exit status."""
    begin_member()
    kind, site, plan_file, *identity_file = sys.argv[1:]
    source = ForkServer() if kind == "fork" else Sleeper(*identity_file)
    # Only now what takes long to import: a parent that dies meanwhile takes this process along.
    from artos.runtime.serving import prepare_site, serve_prepared  # noqa: PLC0415

    prepared = prepare_site(site, plan_file, environments=kind != "fork")
    if prepared is None:
        return 3
    identity = source.next()
    if identity is None:
        return 0
    take_log(identity.log)
    return serve_prepared(prepared, identity.site, "fork" if kind == "fork" else "clone")


if __name__ == "__main__":
    sys.exit(main())
