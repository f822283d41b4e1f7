"""Others' text on a terminal: nothing in it moves the cursor, or colours or clears anything."""

from __future__ import annotations

_KEPT = "\n\t"


def printable(text: str) -> str:
    """The same text with everything escaped that a terminal would obey instead of show."""
    if text.isprintable():
        return text
    return "".join(
        each
        if each.isprintable() or each in _KEPT
        else each.encode("unicode_escape", "surrogatepass").decode()
        for each in text
    )


def one_line(text: str) -> str:
    """As ``printable``, on one line, so that a message cannot forge a line of another process."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")
