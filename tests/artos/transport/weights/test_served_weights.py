"""A server that acts in place of actors answers by the versions that it is told of."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from killed_inside import killed_inside
from text_servers import LITTLE, TextServer

from artos.envs.make import describe
from artos.errors import DeadlineExceeded, InferenceServerFailed
from artos.policies.acting import ActInfo
from artos.policies.flat import layout
from artos.policies.served_text import ServedText
from artos.policies.text import TextPolicy, lengths_of
from artos.specs.keys import OBSERVATIONS
from artos.transport.weights.channel import Layout, Way
from artos.transport.weights.http import Served
from artos.transport.weights.vllm import VllmServer

pytestmark = pytest.mark.processes

SPEC = describe(str(LITTLE["env"]))
NONE: Any = None
BEGUN = np.array([[3, 4, 11, 0, 0]] * 3 + [[5, 6, 11, 0, 0]] * 3)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextServer]:
    running = TextServer(tmp_path_factory.mktemp("server"))
    yield running
    running.kill()


def transformer(seed: int, width: int = 16) -> tuple[TextPolicy, Layout, Any]:
    torch.manual_seed(seed)
    policy = TextPolicy(SPEC, width)
    flat = np.concatenate([each.detach().numpy().ravel() for each in policy.parameters()])
    return policy, layout(policy), flat


def channel(folder: Path, url: str, patience: float = 60.0, width: int = 16) -> Served:
    way = Way("http", str(folder), url, "artos")
    found = way.opened(transformer(0, width)[1], 0, patience)
    assert isinstance(found, Served)
    return found


def asked(url: str, verb: str, path: str, body: Any = None) -> Any:
    """What the server answers to somebody else."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    connection.request(verb, path, None if body is None else json.dumps(body))
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def test_it_writes_what_the_version_writes_with_its_log_probabilities(
    server: TextServer, tmp_path: Path
) -> None:
    """Of a whole group at once; what its environment does otherwise is asked anew."""
    ours = channel(tmp_path, server.url)
    policy = ServedText(ours, 12, 2, seed=1)
    for version in (0, 1):
        module, _, flat = transformer(version)
        ours.send(version, flat)
        assert ours.receive(version, flat) == (version, flat)
        policy.bind()
        text = BEGUN.copy()
        for place in (3, 4):
            acted = policy.act({OBSERVATIONS: text}, ActInfo())
            shown = torch.from_numpy(text)
            scores = module.scores(shown, lengths_of(shown)[:, None])[:, 0].log_softmax(-1)
            wanted = scores.gather(1, torch.from_numpy(acted["actions"])[:, None])[:, 0]
            np.testing.assert_allclose(acted["log_probs"], wanted.detach(), atol=1e-5)
            assert acted["log_probs"].dtype == np.float32
            text[:, place] = np.maximum(acted["actions"], 1)
        assert policy.versions == [version] * 2
        assert len({*map(tuple, text[:3].tolist())}) > 1, "a group has one prompt, not one answer"


def test_greedy_tokens_are_the_likeliest(server: TextServer, tmp_path: Path) -> None:
    ours, (module, _, flat) = channel(tmp_path, server.url), transformer(3)
    ours.send(0, flat)
    ours.receive(0, flat)
    acted = ServedText(ours, 12, 2, seed=1).act({OBSERVATIONS: BEGUN}, ActInfo(greedy=True))
    shown = torch.from_numpy(BEGUN)
    scores = module.scores(shown, lengths_of(shown)[:, None])[:, 0]
    assert acted["actions"].tolist() == scores.argmax(-1).tolist()


def test_whoever_is_first_tells_it_and_nobody_takes_it_back(
    server: TextServer, tmp_path: Path
) -> None:
    one, other = channel(tmp_path, server.url), channel(tmp_path, server.url)
    for version in (0, 1):
        one.send(version, transformer(version)[2])
    assert one.receive(1, NONE)[0] == 1
    assert other.receive(0, NONE)[0] == 1
    name = str(tmp_path / "run_0" / "step_1")
    assert asked(server.url, "GET", "/weight_info") == {"weight_version": name}


def test_an_actor_that_was_killed_while_it_told_leaves_no_server_that_waits(
    server: TextServer, tmp_path: Path
) -> None:
    ours = channel(tmp_path, server.url)
    ours.send(0, transformer(0)[2])
    ours.receive(0, NONE)
    for goes_on in (
        lambda: ours.receive(0, NONE),
        lambda: ours.complete([[3]], 1, 1, 1, greedy=True),
    ):
        asked(server.url, "POST", "/pause?mode=wait")
        assert goes_on()[0] == 0
        assert asked(server.url, "GET", "/is_paused") == {"is_paused": False}


NAMES = "/update_weight_version"


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        (f"{NAMES} loading", "step_0"),
        ("/update_weights", "step_1"),
        (f"{NAMES} /", "step_1"),
        ("/resume", "step_1"),
    ],
)
def test_an_actor_is_killed_with_the_lock_while_it_tells(
    verb: str, name: str, server: TextServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it says this; whoever comes next has the lock, and the server goes on."""
    ours, waiting = channel(tmp_path, server.url), channel(tmp_path, server.url)
    for version in (0, 1):
        ours.send(version, transformer(version)[2])
        if version == 0:
            ours.receive(0, NONE)
    answer = VllmServer._answer

    def tell(halt: Callable[[], Any]) -> None:
        def until(server: VllmServer, method: str, path: str, *given: Any, **named: Any) -> Any:
            said = f"{path} {given[0]['new_version'][:7]}" if path == NAMES else path
            return (
                halt() if said.startswith(verb) else answer(server, method, path, *given, **named)
            )

        monkeypatch.setattr(VllmServer, "_answer", until)
        ours.receive(1, NONE)

    killed_inside(tell)
    assert asked(server.url, "GET", "/is_paused") == {"is_paused": True}
    called = asked(server.url, "GET", "/weight_info")["weight_version"]
    assert Path(called).name == name
    assert (called[0] == "/") is (verb in (f"{NAMES} loading", "/resume")), "a name of a version"
    assert waiting.receive(1, NONE)[0] == 1
    assert waiting.complete([[3, 4, 11]], 1, 2, 1, greedy=True).version == 1


def test_a_server_that_lost_its_weights_is_told_again(server: TextServer, tmp_path: Path) -> None:
    """As one that was started again has."""
    ours = channel(tmp_path, server.url)
    ours.send(4, transformer(4)[2])
    ours.receive(4, NONE)
    asked(server.url, "POST", "/update_weight_version", {"new_version": "default"})
    assert ours.complete([[3, 4, 11]], 2, 2, 1, greedy=False).version == 4


def test_a_server_that_another_run_uses_too_is_told(server: TextServer, tmp_path: Path) -> None:
    ours = channel(tmp_path / "ours", server.url)
    ours.send(0, transformer(0)[2])
    ours.receive(0, NONE)

    class Shared(VllmServer):
        def complete(self, *given: Any, **named: Any) -> Any:
            asked(self.url, "POST", "/update_weight_version", {"new_version": "/theirs/step_0"})
            return super().complete(*given, **named)

    ours.server = Shared(server.url, "artos", 60.0)
    with pytest.raises(InferenceServerFailed, match="'/theirs/step_0': these are not the weights"):
        ours.complete([[3, 4, 11]], 2, 2, 1, greedy=False)


def test_another_transformer_is_told(server: TextServer, tmp_path: Path) -> None:
    ours = channel(tmp_path, server.url, width=32)
    ours.send(0, transformer(0, 32)[2])
    with pytest.raises(InferenceServerFailed, match=r"/update_weights with status 400: .*size mis"):
        ours.receive(0, NONE)
    asked(server.url, "POST", "/resume")


def test_tokens_that_the_environment_has_not_are_told(server: TextServer, tmp_path: Path) -> None:
    ours = channel(tmp_path, server.url)
    ours.send(0, transformer(0)[2])
    ours.receive(0, NONE)
    with pytest.raises(InferenceServerFailed, match=r"writes token \d+ of 1: it has another model"):
        ServedText(ours, 1, 2, seed=1).act({OBSERVATIONS: np.repeat(BEGUN, 9, 0)}, ActInfo())


def test_before_a_run_it_is_asked_for_its_model(server: TextServer, tmp_path: Path) -> None:
    assert [*Way("http", str(tmp_path), server.url, "artos").faults()] == []
    (fault,) = Way("http", str(tmp_path), server.url, "llama").faults()
    assert fault.startswith(f"the server at {server.url} has no model 'llama' but artos: set serv")
    (fault,) = Way("http", str(tmp_path), f"{server.url}/else", "artos").faults()
    assert "answers GET /health with status 404" in fault


def test_a_server_that_is_away_is_waited_for_and_then_named(tmp_path: Path) -> None:
    gone = TextServer(tmp_path)
    gone.kill()
    (fault,) = Way("http", str(tmp_path), gone.url, "artos").faults()
    assert fault.startswith(f"weights=http: the server at {gone.url} cannot be reached")
    ours = channel(tmp_path, gone.url, patience=0.2)
    ours.send(0, transformer(0)[2])
    with pytest.raises(DeadlineExceeded, match=f"the server at {gone.url}, which cannot be reach"):
        ours.receive(0, NONE)
    back = TextServer(tmp_path, gone.port)
    try:
        assert channel(tmp_path, gone.url).receive(0, NONE)[0] == 0
    finally:
        back.kill()


def test_an_answer_that_was_cut_short_is_asked_for_again() -> None:
    """As by a server that is killed while it answers."""
    whole, answers = b'{"weight_version": "step_1"}', 0
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            nonlocal answers
            for sent in (b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"", whole[:9], whole):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(2**16)
                    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(whole)
                    connection.sendall(head + sent if whole.startswith(sent) and sent else sent)
                answers += 1

        server = threading.Thread(target=serve)
        server.start()
        port = listening.getsockname()[1]
        assert VllmServer(f"http://127.0.0.1:{port}", "artos", 60.0).version() == "step_1"
        server.join(60)
    assert answers == 5
