"""Requests to CRIU as plain values that encode themselves for its RPC.

Numbers and names come from CRIU's ``rpc.proto``; pycriu has the message classes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from artos.errors import CriuUnavailable

_LOG_LEVEL = 2  # errors and warnings
_FREEZE_SECONDS = 10
_GHOST_BYTES = 64 << 20
"""Largest deleted file, still mapped or open, that an image may include."""
_CGROUPS_ARE_OURS = "IGNORE"
_NO_NETWORK_LOCK = "SKIP"
"""An actor has no connections to lock, and this saves calls of iptables."""


class Dump(msgspec.Struct, frozen=True):
    """Dump the process ``pid`` to the open ``folder``; it ends, or goes on if it ``stays``."""

    pid: int
    folder: int
    log: str
    stays: bool = False

    def encode(self) -> bytes:
        """The request as CRIU reads it."""
        request = _request("DUMP", self.folder, self.log)
        request.opts.pid = self.pid
        request.opts.leave_running = self.stays
        request.opts.ghost_limit = _GHOST_BYTES
        request.opts.timeout = _FREEZE_SECONDS
        request.opts.network_lock = rpc().criu_network_lock_method.Value(_NO_NETWORK_LOCK)
        return bytes(request.SerializeToString())


class Restore(msgspec.Struct, frozen=True):
    """Make a process from the image in the open ``folder``, as a child of the process that asks.

    ``inherit`` maps the path of a file as it was at the dump to the descriptor that takes its
    place.
    """

    folder: int
    log: str
    inherit: Mapping[str, int] = {}

    def encode(self) -> bytes:
        """The request as CRIU reads it."""
        request = _request("RESTORE", self.folder, self.log)
        request.opts.rst_sibling = True
        for path, descriptor in self.inherit.items():
            # CRIU keeps paths relative to the root.
            request.opts.inherit_fd.add(key=path.removeprefix("/"), fd=descriptor)
        return bytes(request.SerializeToString())


class CriuAnswer(msgspec.Struct, frozen=True):
    """CRIU's answer: whether the request succeeded, and for restores the process id."""

    success: bool
    pid: int = -1

    @classmethod
    def decode(cls, data: bytes) -> CriuAnswer:
        """Read CRIU's response."""
        response = rpc().criu_resp.FromString(data)
        pid = response.restore.pid if response.HasField("restore") else -1
        return cls(response.success, pid)


def rpc() -> Any:
    """The classes of CRIU's messages.

    Raises:
        CriuUnavailable: pycriu is not installed here.
    """
    try:
        from pycriu import rpc_pb2  # noqa: PLC0415 (hosts without CRIU have no pycriu)
    except ImportError as error:
        raise CriuUnavailable(f"pycriu cannot be imported ({error})", "artos setup criu") from error
    return rpc_pb2


def _request(kind: str, folder: int, log: str) -> Any:
    messages = rpc()
    request = messages.criu_req(type=messages.criu_req_type.Value(kind))
    # CRIU opens the folder through our /proc, so it must stay open here. A path would not do: CRIU
    # 4.1 requires the path to be a symbolic link.
    request.opts.images_dir_fd = folder
    request.opts.unprivileged = os.geteuid() != 0
    request.opts.log_level = _LOG_LEVEL
    request.opts.log_file = log
    request.opts.manage_cgroups_mode = messages.criu_cg_mode.Value(_CGROUPS_ARE_OURS)
    return request
