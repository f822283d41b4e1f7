"""What can go wrong where the number of actors changes."""

from __future__ import annotations

from artos.errors import ArtosError


class ScalingFailed(ArtosError):
    """A scaling policy raised, or returned something that is not a number of actors."""

    def __init__(self, policy: str, update: int, trace: str) -> None:
        self.policy, self.update, self.trace = policy, update, trace
        super().__init__(
            f"{policy} failed when it was asked about update {update}; fix it and continue with "
            f"--resume; its traceback:\n{trace}"
        )


class CannotScale(ArtosError):
    """A run cannot have the requested number of actors; it continues as it was."""

    def __init__(self, actors: int, least: int, most: int, why: str) -> None:
        self.actors, self.least, self.most = actors, least, most
        such = f"{least} to {most}" if least < most else str(least)
        super().__init__(f"cannot continue with {actors} actors: {why}; ask for {such}")
