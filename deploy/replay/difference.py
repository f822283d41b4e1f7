"""How a replay ends before its end."""

from __future__ import annotations

import msgspec

from artos.errors import ArtosError


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a replay first differs from the run: what, whose, and when."""

    member: str
    what: str
    version: int | None = None
    """The version that came out differently."""
    step: int | None = None
    """The first of the rows of which one came out differently; the last is before ``until``."""
    until: int | None = None

    def __str__(self) -> str:
        if self.step is not None:
            last = (self.until or self.step + 1) - 1
            when = f"in steps {self.step:,} to {last:,}"
            when = when if last > self.step else f"in step {self.step:,}"
        else:
            when = f"at version {self.version:,}" if self.version is not None else "at the start"
        return f"{self.member} {self.what} {when}"


class Differs(ArtosError):
    """The replay differs from the run."""

    def __init__(self, difference: Difference) -> None:
        self.difference = difference
        super().__init__(str(difference))


class Over(BaseException):  # no exception that a learner's code may handle
    """There is no more to replay, because ``why``; "" if all was replayed that was to be."""

    def __init__(self, why: str = "") -> None:
        self.why = why
        super().__init__(why)


class JournalEnds(Over):
    """What came next is not in the journal, as of a run that goes on, or was killed."""


class Raised(Over):
    """A learner raised an exception, and did no more in the run either."""


class Left(Over):
    """Whoever debugged it has left."""

    def __init__(self) -> None:
        super().__init__("the debugger was left")


class Killed(BaseException):  # the same
    """Here the process ended that is being replayed."""
