"""``python -m artos``: the ``artos`` command."""

from __future__ import annotations

import runpy
import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the user's folder may hold a deploy.py of its own
runpy.run_module("deploy.cli", run_name="__main__", alter_sys=True)
