"""Standard streams and file names that a process can rely on, however it was started."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from artos.errors import Refused

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def complete() -> None:
    """Give this process the standard streams that were closed (``2>&-``) when it was started.

    Otherwise the next file opened would get the number of a standard stream, and its output.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:  # it is closed
                null = os.open(os.devnull, os.O_RDWR)
                if null != number:
                    os.dup2(null, number)
                    os.close(null)
                os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def in_utf8(arguments: Sequence[str]) -> None:
    """Start again in Python's UTF-8 mode if the locale encodes file names in another way.

    Names are kept and sent as UTF-8, and all processes of a run must read them in the same way.

    Raises:
        Refused: an argument or the working folder is not UTF-8, or that folder was deleted.
    """
    if sys.getfilesystemencoding() != "utf-8":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    try:
        here = str(Path.cwd())
    except OSError as error:
        why = f"the working folder cannot be used ({error.strerror})"
        raise Refused([f"{why}: change to another one"]) from error
    texts = (*arguments, here)
    strange = [text for text in texts if text.encode(errors="replace").decode() != text]
    if strange:
        raise Refused([f"{text!a} is not UTF-8: rename it" for text in strange])
