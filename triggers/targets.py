"""Targets: what a trigger fires, written ``ROLE.METHOD``."""

from __future__ import annotations

WITHOUT_A_METHOD = ("sync", "prewarm")
"""What actors do without a method of theirs: bind weights, have their process restored."""


def role_of(target: str) -> str:
    """The role of a target: ``actors``, ``learner``, ``evaluator`` or ``transfer``."""
    return target.partition(".")[0]


def method_of(target: str) -> str:
    """The method a target names; a transfer has none."""
    return target.partition(".")[2]


def samples(target: str) -> bool:
    """Whether a target grants rounds of sampling."""
    return role_of(target) == "actors" and method_of(target) not in WITHOUT_A_METHOD
