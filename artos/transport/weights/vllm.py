"""A server that writes texts, by the verbs of vLLM's (OpenAI's, and those of its developer mode).

``/update_weights`` takes the folder of a version, as in Prime-RL's extension of vLLM; the others
are vLLM's own with ``VLLM_SERVER_DEV_MODE=1``. No connection is held between two questions: the
process of an actor may be made an image of at any time.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from artos.clock import Deadline
from artos.errors import DeadlineExceeded, InferenceServerFailed

T = TypeVar("T")
_LARGEST = 256 * 2**20
"""Bytes of an answer."""
_CONNECT, _PAUSE, _LONGEST_PAUSE = 10.0, 0.05, 1.0
"""Seconds to connect, and between two tries while a server is away or overloaded."""
_END = 0


class Completion(msgspec.Struct, frozen=True):
    """What followed a prompt: tokens and the logarithm of the probability of each."""

    tokens: list[int]
    log_probs: list[float]


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class _WeightInfo(msgspec.Struct):
    weight_version: str


class _Paused(msgspec.Struct):
    is_paused: bool


class _LogProbs(msgspec.Struct):
    token_logprobs: list[float]


class _Choice(msgspec.Struct):
    index: int
    token_ids: list[int]
    logprobs: _LogProbs


class _Choices(msgspec.Struct):
    choices: list[_Choice]


class _Reply(NamedTuple):
    status: int
    body: bytes


class VllmServer:
    """The server at ``url`` and its ``model``; each question is answered within ``patience`` s.

    Every method raises:
        InferenceServerFailed: it refuses, or answers something else than was asked.
        DeadlineExceeded: it is away, too busy or silent for all that time.
    """

    def __init__(self, url: str, model: str, patience: float) -> None:
        self.url, self.model, self._patience = url.rstrip("/"), model, patience

    def faults(self) -> Iterator[str]:
        """Why no run can use it, found out by asking it once."""
        try:
            parts = urlsplit(self.url)
            there = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            there = False
        if not there:
            yield f"weights=http: server={self.url!r} is no address: write server=http://HOST:PORT"
            return
        if parts.username or parts.password or parts.query or parts.fragment:
            yield (
                f"server={parts.scheme}://{parts.hostname} has more than host, port and path: "
                "settings are recorded and seen by others, so keep secrets out of them"
            )
            return
        try:
            self._answer("GET", "/health", retries=False)
            models = self._ask("GET", "/v1/models", _Models, retries=False)
            self._ask("GET", "/weight_info", _WeightInfo, retries=False)
        except (InferenceServerFailed, DeadlineExceeded) as error:
            yield f"weights=http: {error}"
            return
        known = [each.id for each in models.data]
        if self.model not in known:
            yield (
                f"the server at {self.url} has no model {self.model!r} but {', '.join(known)}: set "
                "served_model to one of these, and have it be the model of this run"
            )

    def version(self) -> str:
        """What it calls the weights by which it answers now."""
        return self._ask("GET", "/weight_info", _WeightInfo).weight_version

    def paused(self) -> bool:
        """Whether it answers nothing until it is told to go on."""
        return self._ask("GET", "/is_paused", _Paused).is_paused

    def load(self, folder: str, name: str) -> None:
        """Finish what was asked, load the weights in ``folder``, call them ``name``, go on."""
        self._answer("POST", "/pause?mode=wait")
        # Whoever calls this may be killed at any time: new weights never have the old name.
        self._answer("POST", "/update_weight_version", {"new_version": f"loading {name}"})
        self._answer("POST", "/update_weights", {"weight_dir": folder})
        self._answer("POST", "/update_weight_version", {"new_version": name})
        self.resume()

    def resume(self) -> None:
        """Go on to answer."""
        self._answer("POST", "/resume")

    def complete(
        self, prompts: Sequence[Sequence[int]], n: int, most: int, seed: int, *, greedy: bool
    ) -> list[Completion]:
        """``n`` completions of each prompt in turn, of ``most`` tokens or up to a token 0."""
        asked = {
            "model": self.model,
            "prompt": prompts,
            "n": n,
            "max_tokens": most,
            "temperature": 0.0 if greedy else 1.0,
            "seed": seed,
            "logprobs": 1,
            "return_token_ids": True,
            "stop_token_ids": [_END],
        }
        found = self._ask("POST", "/v1/completions", _Choices, asked).choices
        if sorted(each.index for each in found) != [*range(len(prompts) * n)]:
            raise self._nonsense("/v1/completions", f"{len(found)} of {len(prompts) * n} choices")
        answers = []
        for each in sorted(found, key=lambda choice: choice.index):
            tokens, logs = each.token_ids, each.logprobs.token_logprobs
            if not (0 < len(tokens) == len(logs) <= most):
                raise self._nonsense("/v1/completions", _UNEQUAL.format(len(tokens), len(logs)))
            answers.append(Completion(tokens, logs))
        return answers

    # -- HTTP ----------------------------------------------------------------------------------

    def _ask(
        self, verb: str, path: str, kind: type[T], body: Any = None, *, retries: bool = True
    ) -> T:
        data = self._answer(verb, path, body, retries=retries)
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.MsgspecError as error:
            raise self._nonsense(path, str(error)) from error

    def _answer(self, verb: str, path: str, body: Any = None, *, retries: bool = True) -> bytes:
        """The body of its answer. While it is away or overloaded it is asked again."""
        deadline, pause = Deadline(self._patience), _PAUSE
        data = b"" if body is None else msgspec.json.encode(body)
        while True:
            try:
                reply = self._once(verb, path, data, deadline)
            except (OSError, http.client.HTTPException) as error:
                why = f"cannot be reached ({error or type(error).__name__})"
            else:
                if reply.status == http.HTTPStatus.OK:
                    return reply.body
                text = reply.body[:300].decode(errors="replace").strip()
                why = f"answers {verb} {path} with status {reply.status}: {text}"
                if reply.status < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise InferenceServerFailed(self.url, why, _VERBS)
            if not retries:
                raise InferenceServerFailed(self.url, why, _AWAY)
            if deadline.passed:
                raise DeadlineExceeded(f"the server at {self.url}, which {why}", self._patience)
            time.sleep(min(pause, deadline.left))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _once(self, verb: str, path: str, data: bytes, deadline: Deadline) -> _Reply:
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        host = parts.hostname or ""
        connection = kind(host, parts.port, timeout=min(_CONNECT, max(0.1, deadline.left)))
        try:
            connection.connect()
            connection.sock.settimeout(max(0.1, deadline.left))
            headers = {"Content-Type": "application/json"} if data else {}
            connection.request(verb, parts.path + path, data, headers)
            reply = connection.getresponse()
            body = reply.read(_LARGEST + 1)
            if len(body) > _LARGEST:
                raise self._nonsense(path, f"more than {_LARGEST} bytes")
            told = reply.chunked or "Content-Length" in reply.headers
            if reply.length or not told:  # it was ended meanwhile
                raise http.client.IncompleteRead(body, reply.length)
            return _Reply(reply.status, body)
        finally:
            connection.close()

    def _nonsense(self, path: str, what: str) -> InferenceServerFailed:
        return InferenceServerFailed(self.url, f"answers {path} with {what}", _VERBS)


_AWAY = "start it, and see whether other machines reach it at that address"
_VERBS = "it must speak the verbs of vLLM that the page on tokens names"
_UNEQUAL = "{} tokens and {} log-probabilities in a choice"
