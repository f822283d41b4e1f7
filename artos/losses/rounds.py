"""What estimates of returns share: the values after each row, and sums from a round's end.

Rounds are (A, T, E). Whole episodes padded with zeros, (T, n), need nothing else: time is the last
axis but one of both, and no sum crosses the end of an episode, behind which all is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


def following_values(
    values: NDArray[Any],
    bootstraps: NDArray[Any],
    terminations: Flags,
    truncations: Flags,
    valid: Flags | None = None,
) -> Floats:
    """The value of the state after each row; everything is (A, T, E) or (T, n), the result float32.

    It is 0 where the episode terminated, that of ``bootstraps`` after a truncation and in the
    round's last row, else the next row's value. If rows have the key ``valid``, the row after a
    truncated one holds the episode's last observation, and its value counts instead of the
    bootstrap.
    """
    following = np.empty(values.shape, np.float32)
    following[..., :-1, :] = values[..., 1:, :]
    following[..., -1, :] = bootstraps[..., -1, :]
    if valid is None:
        np.copyto(following, bootstraps, where=truncations)
    np.copyto(following, 0, where=terminations)
    return following


def sum_backwards(errors: Floats, weights: Floats) -> None:
    """Add to each error the weighted sum of the errors after it, in place.

    Both are (A, T, E) or (T, n): ``errors[t] += weights[t] * errors[t + 1]``, from the end of the
    round on.
    """
    for t in range(errors.shape[-2] - 2, -1, -1):
        errors[..., t, :] += weights[..., t, :] * errors[..., t + 1, :]


def n_step_returns(
    rewards: NDArray[Any],
    values: NDArray[Any],
    bootstraps: NDArray[Any],
    terminations: Flags,
    truncations: Flags,
    gamma: float,
    n: int,
    valid: Flags | None = None,
) -> Floats:
    """Returns over ``n`` rows and the value of the state after them, as rewards are shaped.

    All arrays are (A, T, E), or (T, n), whole episodes padded with zeros, as an ``EpisodeBatch``
    has them; the result is float32. ``following_values`` says which value counts as that of the
    state after each row. Where an episode ends, and at the end of a round, fewer rewards are
    summed. What stands where ``valid`` is False means nothing.

    Raises:
        ValueError: ``n`` is below 1.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    following = following_values(values, bootstraps, terminations, truncations, valid)
    goes_on = ~(terminations | truncations)[..., :-1, :]
    found: Floats = (rewards + gamma * following).astype(np.float32)
    for _ in range(min(n, rewards.shape[-2]) - 1):
        after = following.copy()
        np.copyto(after[..., :-1, :], found[..., 1:, :], where=goes_on)
        found = (rewards + gamma * after).astype(np.float32)
    return found
