"""A supervisor to be killed: ``fork_peer.py TEMPLATE_ARGUMENTS... REQUEST`` prints two pids."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys

from artos.system.child import command, environment

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
server = subprocess.Popen(
    command("artos.runtime.template", *sys.argv[1:-1]),
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(1), start_new_session=True,
)  # fmt: skip
assert server.stdin is not None
assert server.stdout is not None
server.stdin.write(sys.argv[-1].encode() + b"\n")
server.stdin.flush()
print(server.pid, int(server.stdout.readline()), flush=True)
signal.pause()
