"""Reads CRIU's log: the lines about the error, what it means, and a remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from artos.system.regular_file import contents

_AROUND = 2
_MOST_LINES = 24
_NOISE = "Can't setup RLIMIT_NOFILE for self"
_STAMP = re.compile(r"^\(\d+\.\d+\)\s*")
_SOURCE = re.compile(r"Error \([^)]*\):\s*")

CLOSE = "close it before a round ends, or keep actors in memory (--set park=memory)"
_ROOM = "make room there, or keep images elsewhere (--set images=FOLDER)"
_HOST = "`artos doctor` says what this machine lacks"


class Culprit(NamedTuple):
    """The cause of a failure, and a remedy; empty if unknown."""

    words: str
    remedy: str = ""


FULL = Culprit("the filesystem of the images is full", _ROOM)

# Patterns of CRIU 4 and their meanings; groups fill in the words. The first match wins, so causes
# come before their consequences.
_HELD = (
    (r"Connected TCP socket|tcp: Failed to lock TCP", "an open TCP connection (socket)"),
    (r"TCP connection.*in.?flight|In-flight connection", "a TCP connection that is just made"),
    (r"unix: .*(?:External socket|half of stream|name-less external|without peer)",
     "a Unix socket whose other end is in another process"),
    (r"inet: Unsupported|sockets: .*(?:not supported|[Uu]nsupported|[Uu]nknown)",
     "a socket that CRIU cannot save on this kernel"),
    (r"packet: |netlink: .*(?:Can't|can't)", "a raw or netlink socket"),
    (r"io_uring", "an io_uring (a library with asynchronous I/O of its own)"),
    (r"file (?P<fd>\d+) of that type \[\d+\] \((?P<kind>[^)]*)\)",
     "descriptor {fd}, a file of a kind that cannot be saved ({kind}): a GPU or other device?"),
    (r"Can't handle non-regular mapping|handle_device_vma|Can't dump.* device",
     "memory mapped from a device (a GPU context?)"),
    (r"file locks are hold", "a file lock"),
    (r"Can't dump ghost file (?P<path>\S+)", "{path}, a large file that is open but deleted"),
    (r"dangling tty|tty: (?:Can't|No task)|[Uu]nsupported terminal", "an open terminal"),
    (r"[Ss]ession leader.*outside of its pid namespace|Task.*(?:sid|pgid).*outside",
     "its session began outside of its PID namespace (start it with setsid)"),
    (r"lookup mount=\S+ for fd=(?P<fd>\S+) path=(?P<path>\S+)",
     "descriptor {fd} ({path}), opened in another mount namespace"),
    (r"(?:being traced|[Tt]racer|ptrace).*(?:already|another|\d+)", "a debugger traces it"),
)  # fmt: skip
_OF_IMAGES = (
    (r"File (?P<path>\S+) has bad (?P<what>size|mode|build-ID).*",
     "the file /{path} changed since the image was taken ({what})"),
    (r"Build-ID.*(?:differ|mismatch)|build-ID", "a mapped library changed since then"),
    (r"Can't open file (?P<path>\S+) on restore|Can't open (?P<path2>\S+): No such file",
     "a file that was open or mapped is gone: {path}{path2}"),
    (r"[Pp]id \S+ do(?:es)? not match|Can't fork for \S+: File exists|fork.*File exists",
     "the process id it had is taken"),
    (r"image (?:file )?\S* ?(?:corrupt|is truncated)|Unexpected EOF|Can't read pages|"
     r"Image file header|Can't open (?:dir|image)|Bad magic|magic doesn't match|Premature EOF",
     "the image is incomplete or damaged"),
)  # fmt: skip
_OF_HOST = (
    (r"kerndat.*(?:lo|tcp_repair|TCP)", "the network interface lo is down here"),
    (r"Operation not permitted|CAP_|[Pp]rivileg", "CRIU lacks privileges (run as root)"),
)
_MEANINGS: Sequence[tuple[re.Pattern[str], str, str]] = [
    (re.compile(pattern), words, remedy)
    for remedy, meanings in (
        (CLOSE, _HELD),
        (_ROOM, ((r"No space left on device", FULL.words),)),
        ("", _OF_IMAGES),
        (_HOST, _OF_HOST),
        ("", ((r"No such process", "the process is gone"),)),
    )
    for pattern, words in meanings
]


def read_log(path: Path) -> str:
    """The text of a log; empty if CRIU did not get as far as writing it."""
    try:
        return contents(path).decode(errors="replace")
    except OSError:
        return ""


def error_lines(text: str) -> str:
    """The lines around each ``Error``, up to a limit; the last lines if there is no error."""
    lines = [line for line in text.splitlines() if line.strip() and _NOISE not in line]
    wanted = {
        near
        for number, line in enumerate(lines)
        if "Error" in line
        for near in range(number - _AROUND, number + _AROUND + 1)
    }
    chosen = [line for number, line in enumerate(lines) if number in wanted] or lines[-_AROUND:]
    return "\n".join(chosen[:_MOST_LINES])


def culprit(text: str) -> Culprit:
    """The cause of a failure; CRIU's first error line itself if no pattern matches."""
    errors = [line for line in text.splitlines() if "Error" in line and _NOISE not in line]
    for pattern, words, remedy in _MEANINGS:
        if found := pattern.search("\n".join(errors)):
            groups = {name: value or "" for name, value in found.groupdict().items()}
            return Culprit(words.format(**groups), remedy)
    first = _SOURCE.sub("", _STAMP.sub("", errors[0])).strip() if errors else "CRIU does not say"
    return Culprit(first)
