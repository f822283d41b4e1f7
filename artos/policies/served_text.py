"""A policy whose texts a server writes, whole completions at a time."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from artos.errors import InferenceServerFailed
from artos.policies.acting import ActInfo
from artos.specs.keys import OBSERVATIONS
from artos.transport.weights.http import Served

Array = NDArray[Any]


class ServedText:
    """Writes what the server at the other end of ``channel`` does, a token for each ``act``.

    A text is sent when nothing is left of its completion, or when it is not what that was written
    for, as where an environment answered or began anew. Completions have up to ``most`` tokens,
    each of which is one of ``tokens``. They are all by one version, but those of two questions may
    not be: ``versions`` has, for each ``act`` since the last ``bind``, the oldest of its texts.
    """

    kept: ClassVar[tuple[str, ...]] = ("_random",)

    def __init__(self, channel: Served, tokens: int, most: int, seed: int) -> None:
        self._channel, self._tokens, self._most = channel, tokens, most
        self._random = np.random.default_rng(seed)
        self.bind()

    def bind(self, flat: Any = None) -> None:
        """Write nothing more of what other weights began: the channel has other ones by now."""
        self._pending: list[_Pending | None] = []
        self.versions: list[int] = []

    def act(self, obs: dict[str, Array], info: ActInfo) -> dict[str, Array]:
        """``actions`` (B,) int64 and their ``log_probs`` (B,) float32."""
        texts = obs[OBSERVATIONS]
        if len(self._pending) != len(texts):
            self._pending = [None] * len(texts)
        pending = self._pending
        self._ask(
            [i for i, each in enumerate(pending) if each is None or not each.goes_on(texts[i])],
            texts,
            greedy=info.greedy,
        )
        written = [each.take() for each in pending if each is not None]
        self.versions.append(min(each.version for each in pending if each is not None))
        return {
            "actions": np.array([token for token, _ in written], np.int64),
            "log_probs": np.array([log for _, log in written], np.float32),
        }

    def values(self, obs: dict[str, Array], info: ActInfo) -> NDArray[np.float32]:
        """There are none."""
        raise NotImplementedError

    def _ask(self, rows: list[int], texts: Array, *, greedy: bool) -> None:
        """Have the texts of these rows completed: those of a group in one question."""
        alike: dict[tuple[int, ...], list[int]] = {}
        for row in rows:
            alike.setdefault(_prompt(texts[row]), []).append(row)
        by_count: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        for prompt, members in alike.items():
            room = max(1, min(self._most, texts.shape[1] - len(prompt)))
            by_count.setdefault((len(members), room), []).append(prompt)
        for (count, room), prompts in by_count.items():
            seed = int(self._random.integers(2**31))
            version, answers = self._channel.complete(prompts, count, room, seed, greedy=greedy)
            members = [row for prompt in prompts for row in alike[prompt]]
            for row, answer in zip(members, answers, strict=True):
                if not all(0 <= token < self._tokens for token in answer.tokens):
                    why = f"writes token {max(answer.tokens)} of {self._tokens}"
                    raise InferenceServerFailed(self._channel.server.url, why, _OTHER)
                self._pending[row] = _Pending(version, texts[row], answer.tokens, answer.log_probs)


class _Pending:
    """A completion, of which the first ``taken`` tokens are written."""

    def __init__(self, version: int, text: Array, tokens: list[int], logs: list[float]) -> None:
        self.version, self._tokens, self._logs, self._taken = version, tokens, logs, 0
        self._text, self._length = text.copy(), int(np.count_nonzero(text))

    def goes_on(self, text: Array) -> bool:
        """Whether the text is as this completion left it, and something is left of it."""
        return self._taken < len(self._tokens) and bool((text == self._text).all())

    def take(self) -> tuple[int, float]:
        """The next token and the logarithm of its probability."""
        token, log = self._tokens[self._taken], self._logs[self._taken]
        if self._length < len(self._text):
            self._text[self._length] = token
        self._length, self._taken = self._length + 1, self._taken + 1
        return token, log


def _prompt(text: Array) -> tuple[int, ...]:
    """The tokens of a text, which is never empty for a server."""
    return tuple(text[: max(1, int(np.count_nonzero(text)))].tolist())


_OTHER = "it has another model: let it serve the transformer that this run learns"
