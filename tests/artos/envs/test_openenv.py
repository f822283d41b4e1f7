"""What comes of an OpenEnv server that is gone, full, silent, or speaks nonsense, and of fields.

A server that is as it should be is in tests/integration/openenv.
"""

from __future__ import annotations

import http
import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from websockets.datastructures import Headers
from websockets.http11 import Response
from websockets.sync.server import ServerConnection, serve

from artos.envs import openenv_session
from artos.envs.make import describe, full_address, make_vector, open_vector
from artos.envs.openenv_session import Session, declared
from artos.envs.shown import Mismatch
from artos.errors import DeadlineExceeded, EnvServerFailed, Refused
from artos.specs.address import address

Said = dict[str, Any]
BIT = {"type": "boolean"}
ACTION = {"properties": {"move": {"enum": ["left", "right"]}}, "required": ["move"]}
SCHEMAS: Said = {"action": ACTION, "observation": {"properties": {"bit": BIT}}}
SEEN: Said = {"type": "observation", "data": {"observation": {"bit": True}, "done": False}}


@contextmanager
def server(answer: Callable[[Said], Any], schemas: Any = SCHEMAS, port: int = 0) -> Iterator[str]:
    """The address of a server that answers each question with what ``answer`` returns.

    None ends the session instead, and "" says nothing.
    """

    def schema(_: ServerConnection, request: Any) -> Response | None:
        if request.path != "/schema":
            return None
        status = http.HTTPStatus.OK if schemas else http.HTTPStatus.NOT_FOUND
        return Response(status, status.phrase, Headers(), json.dumps(schemas).encode())

    def session(connection: ServerConnection) -> None:
        for question in connection:
            said = json.loads(question)
            if said["type"] == "close" or (given := answer(said)) is None:
                return
            if given:
                connection.send(given if isinstance(given, str) else json.dumps(given))

    with serve(session, "127.0.0.1", port, process_request=schema) as serving:
        thread = Thread(target=serving.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{serving.socket.getsockname()[1]}"
        finally:
            serving.shutdown()
            thread.join()


def refusal(env: str, **arguments: Any) -> str:
    with pytest.raises(Refused) as refused:
        describe(address(env, arguments))
    return str(refused.value)


# -- sessions --------------------------------------------------------------------------------------


def test_each_environment_has_a_session_and_a_seed_of_its_own() -> None:
    said: list[Said] = []

    def answer(question: Said) -> Said:
        said.append(question)
        return SEEN

    with server(answer) as url:
        made = make_vector(f"openenv:{url}(reset={{'level': 2}})", 2)
        assert not said  # nothing is opened before it is used
        made.reset(seed=3)
        made.step(np.array([0, 1]))
        made.close()
        with_seed = [question["data"] for question in said[:2]]
        said.clear()
        again = make_vector(f"openenv:{url}(reset={{'level': 2}})", 2)
        again.reset(seed=3)
        again.close()
    assert [each["level"] for each in with_seed] == [2, 2]
    assert with_seed[0]["seed"] != with_seed[1]["seed"]
    assert [question["data"] for question in said] == with_seed


def test_a_full_server_is_asked_again_and_then_named(monkeypatch: pytest.MonkeyPatch) -> None:
    full = {"type": "error", "data": {"message": "1 of 1 sessions", "code": "CAPACITY_REACHED"}}
    answers = [full, full, SEEN]
    with server(lambda _: answers.pop(0)) as url:
        session = Session(url, 10.0)
        assert session.ask("reset", {}).observation == {"bit": True}
        session.close()
    monkeypatch.setattr(openenv_session, "_ROOM", 0.1)
    with server(lambda _: full) as url:
        words = r"with an error: 1 of 1 sessions: each environment .* raise max_concurrent_envs"
        with pytest.raises(EnvServerFailed, match=words):
            Session(url, 10.0).ask("reset", {})


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "ended a session before it answered to step"),
        ("nonsense", "no answer of OpenEnv's"),
        ({"type": "observation", "data": {"observation": 3}}, "no answer of OpenEnv's"),
        ({"type": "state", "data": {}}, "an answer of type 'state'"),
        (
            {"type": "error", "data": {"message": "no such move", "code": "EXECUTION_ERROR"}},
            "answered to step with an error: no such move: look at the server's log",
        ),
    ],
)
def test_answers_that_are_none(answer: Any, why: str) -> None:
    with server(lambda _: answer) as url:
        session = Session(url, 10.0)
        with pytest.raises(EnvServerFailed, match=why):
            session.ask("step", {})
        assert session._socket is None


def test_a_silent_server_is_named_with_the_call() -> None:
    with server(lambda _: "") as url:
        words = f"gave up after 2 s waiting for the OpenEnv server at {url} to answer to reset"
        with pytest.raises(DeadlineExceeded, match=words):
            Session(url, 2.0).ask("reset", {})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ws://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DeadlineExceeded, match="to open a session"):
            Session(url, 0.2).ask("reset", {})
        assert "to say its schemas" in refusal(f"openenv:{url}", deadline=0.2)


def test_what_ends_an_episode_and_what_cuts_it() -> None:
    def ending(**more: Any) -> tuple[float, bool, bool]:
        data = {**SEEN["data"], "done": True, "reward": None, **more}
        with server(lambda _: {"type": "observation", "data": data}) as url:
            env = open_vector(f"openenv:{url}", 1).envs[0]  # type: ignore[attr-defined]
            _, reward, terminated, truncated, _ = env.step(0)
            env.close()
        return reward, terminated, truncated

    assert ending() == (0.0, True, False)
    assert ending(reward=True, metadata={"truncated": True}) == (1.0, False, True)
    assert ending(done=False, truncated=True)[1:] == (False, True)


# -- fields ----------------------------------------------------------------------------------------


def space(action: Said, **arguments: Any) -> Any:
    with server(lambda _: SEEN, {"action": action, "observation": SCHEMAS["observation"]}) as url:
        made = open_vector(address(f"openenv:{url}", arguments), 1)
        made.close()
    return made.single_action_space


def test_the_fields_of_an_action_are_one_space() -> None:
    few, many = {"type": "integer", "minimum": 0, "maximum": 2}, {"type": "integer"}
    number = {"type": "number", "minimum": -1, "maximum": 1}
    assert space(ACTION) == spaces.Discrete(2)
    assert space({"properties": {"a": few, "b": BIT}}) == spaces.MultiDiscrete([3, 2])
    assert space({"properties": {"a": many}}, sizes={"a": 4}) == spaces.Discrete(4)
    numbers = space({"properties": {"a": number, "b": number}})
    assert numbers == spaces.Box(-1, 1, (2,), np.float32)
    # What has no space and is not required is left to the server.
    assert space({"properties": {"a": few, "note": {"type": "string"}}}) == spaces.Discrete(3)
    assert space({"properties": {"a": few, "b": number}}, fixed={"b": 0.5}) == spaces.Discrete(3)


def test_fields_that_cannot_be_held_are_all_named() -> None:
    action = {"properties": {"code": {"type": "string"}, "n": BIT}, "required": ["code"]}
    observation = {"properties": {"bit": BIT, "words": {"type": "array", "items": BIT}}}
    with server(lambda _: SEEN, {"action": action, "observation": observation}) as url:
        said = refusal(f"openenv:{url}", without=["bits"])
        assert "observations: words is a list of any length" in said
        assert "actions: code is a text" in said
        assert "no field 'bits': did you mean bit?" in said
        spec = describe(address(f"openenv:{url}", {"without": ["words"], "fixed": {"code": "x"}}))
    assert [part.name for part in spec.parts] == ["observations.bit"]
    assert spec.actions.kind == "discrete"


def test_choices_and_numbers_together_are_refused() -> None:
    action = {"properties": {"a": BIT, "b": {"type": "number"}}}
    with server(lambda _: SEEN, {**SCHEMAS, "action": action}) as url:
        assert "a are choices and b are numbers" in refusal(f"openenv:{url}")


def test_a_choice_that_was_not_declared_is_named() -> None:
    other = {"type": "observation", "data": {"observation": {"bit": "maybe"}}}
    with server(lambda _: other) as url:
        made = make_vector(f"openenv:{url}", 1)
        with pytest.raises(Mismatch, match="'maybe' is none of"):
            made.reset(seed=0)
        made.close()


# -- addresses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ("openenv:here", "names no server: write --env openenv:ws://HOST:PORT"),
        ("openenv:ws://here:0", "names no server"),
        ("openenv:ws://me:secret@here:8000", "keep names and passwords out"),
        ("openenv:ws://here:8000/?token=secret", "keep names and passwords out"),
        ("openenv:ws://127.0.0.1:1(sizes=3)", "sizes is 3: write a table of fields"),
        ("openenv:ws://127.0.0.1:1(deadline=0)", "deadline is 0: write a number of seconds"),
        ("openenv:ws://127.0.0.1:1(size={})", "takes no argument 'size': did you mean sizes?"),
        (
            "openenv:ws://127.0.0.1:1(deadline=0.3)",
            "cannot be reached: .*: start it, or correct the address",
        ),
    ],
)
def test_addresses_that_lead_nowhere(env: str, why: str) -> None:
    with pytest.raises(Refused, match=why) as refused:
        describe(env)
    assert "secret" not in str(refused.value)
    assert full_address(env) == env


def test_a_server_that_is_being_restarted_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ThreadPoolExecutor(1) as waiting:
        found = waiting.submit(declared, f"ws://127.0.0.1:{port}", 10.0)
        assert not found.done()
        with server(lambda _: SEEN, port=port):
            assert found.result(10.0).action == ACTION


def test_a_server_of_another_kind() -> None:
    with server(lambda _: SEEN, None) as url:
        assert "answers 404 (Not Found) where its schemas should be" in refusal(f"openenv:{url}")
    with server(lambda _: SEEN, {"hello": 1}) as url:
        assert "says something else than schemas" in refusal(f"openenv:{url}")
