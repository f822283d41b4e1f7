"""A learning curve drawn with characters, for the end of a run in a terminal."""

from __future__ import annotations

import numpy as np

from head.records.episodes import Episodes

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille character by row and column of its dots (Unicode block U+2800)."""


def draw(episodes: Episodes, width: int = 60, height: int = 8, *, ascii_only: bool) -> list[str]:
    """The running mean against environment steps as lines of text, axes included.

    ``width`` and ``height`` count characters of the plotting area; each character holds 2 × 4 dots,
    or 1 with ``ascii_only``. Where a mean is not finite, none is drawn; without any there are no
    lines.
    """
    if not len(episodes):
        return []
    columns, rows = (width, height) if ascii_only else (2 * width, 4 * height)
    # The running mean at evenly spaced steps; between episodes it stays what it was.
    at = np.linspace(episodes.steps[0], episodes.steps[-1], columns)
    means = episodes.running_mean()[np.searchsorted(episodes.steps, at, side="right") - 1]
    finite = np.isfinite(means)
    if not finite.any():
        return []
    low, high = float(means[finite].min()), float(means[finite].max())
    above = np.where(finite, means - low, 0.0)
    levels = np.rint(above / ((high - low) or 1.0) * (rows - 1)).astype(int)
    # The dots that are set, top row first; each column is joined to the column before it.
    grid = [[False] * columns for _ in range(rows)]
    for column in np.flatnonzero(finite):
        level = levels[column]
        before = levels[column - 1] if column and finite[column - 1] else level
        near = before + np.sign(level - before)
        for filled in range(min(near, level), max(near, level) + 1):
            grid[rows - 1 - filled][column] = True
    if ascii_only:
        lines, rule = ["".join("*" if dot else " " for dot in row) for row in grid], "|"
    else:
        lines, rule = _braille(grid), "│"
    labels = [f"{high:.4g}", *[""] * (len(lines) - 2), f"{low:.4g}"]
    first, last = f"{int(episodes.steps[0]):,}", f"{int(episodes.steps[-1]):,} steps"
    return [
        *(f"{label:>8} {rule}{line}" for label, line in zip(labels, lines, strict=True)),
        " " * 10 + first + last.rjust(width - len(first)),
    ]


def _braille(grid: list[list[bool]]) -> list[str]:
    """The dots of a grid, 2 × 4 in each character."""
    lines = []
    for row in range(0, len(grid), 4):
        line = ""
        for column in range(0, len(grid[0]), 2):
            bits = sum(
                bit
                for down, pair in enumerate(_DOTS)
                for right, bit in enumerate(pair)
                if grid[row + down][column + right]
            )
            line += chr(0x2800 + bits) if bits else " "
        lines.append(line)
    return lines
