"""A server of texts for ``weights=http``: a small transformer, and the verbs of vLLM for it."""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from safetensors.torch import load_file

from artos.envs.make import describe
from artos.policies.acting import ActInfo
from artos.policies.fast import TextActor
from artos.policies.text import TextPolicy


class Model:
    """The transformer, what its weights are called, and who may use it now."""

    def __init__(self, name, env, width, layers, heads):
        spec = describe(env)
        self.name, self.policy = name, TextPolicy(spec, width, layers, heads)
        self.longest = spec.parts[0].shape[0]
        self.version, self.paused, self.busy = "default", False, False
        self.turn = threading.Condition()

    def complete(self, prompts, n, most, seed, greedy):
        """Tokens and log-probabilities of n completions of each prompt."""
        texts = np.zeros((len(prompts) * n, self.longest), np.int64)
        for row in range(len(texts)):
            prompt = prompts[row // n]
            texts[row, : len(prompt)] = prompt
        written = [([], []) for _ in texts]
        with self.turn:
            self.turn.wait_for(lambda: not (self.paused or self.busy))
            self.busy = True
        try:
            actor = TextActor(self.policy, seed)
            for _ in range(most):
                acted = actor.act({"observations": texts}, ActInfo(greedy=greedy))
                for row, (tokens, logs) in enumerate(written):
                    token = int(acted["actions"][row])
                    if not tokens or tokens[-1] != 0:
                        tokens.append(token)
                        logs.append(float(acted["log_probs"][row]))
                    texts[row, np.count_nonzero(texts[row])] = token or 1
        finally:
            with self.turn:
                self.busy = False
                self.turn.notify_all()
        return written

    def pause(self, mode):
        """Finish what is under way, then answer nothing."""
        with self.turn:
            self.paused = True
            self.turn.wait_for(lambda: not self.busy)

    def resume(self):
        """Go on."""
        with self.turn:
            self.paused = False
            self.turn.notify_all()

    def load(self, folder):
        """Take other weights."""
        self.policy.load_state_dict(load_file(Path(folder) / "model.safetensors"))


class Handler(BaseHTTPRequestHandler):
    """What is asked, by path."""

    def do_GET(self):
        """Facts."""
        model = self.server.model
        match self.path:
            case "/health":
                self.reply({})
            case "/v1/models":
                self.reply({"data": [{"id": model.name, "object": "model"}]})
            case "/weight_info":
                self.reply({"weight_version": model.version})
            case "/is_paused":
                self.reply({"is_paused": model.paused})
            case _:
                self.reply({"error": f"no {self.path} here"}, 404)

    def do_POST(self):
        """Completions, and other weights."""
        model = self.server.model
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        match urlsplit(self.path).path:
            case "/v1/completions" if asked["model"] == model.name:
                self.reply({"choices": self.choices(asked)})
            case "/v1/completions":
                self.reply({"error": f"the model {asked['model']!r} does not exist"}, 404)
            case "/pause":
                model.pause("wait")
                self.reply({"status": "paused"})
            case "/resume":
                model.resume()
                self.reply({"status": "resumed"})
            case "/update_weights":
                try:
                    model.load(asked["weight_dir"])
                except (OSError, RuntimeError) as error:
                    self.reply({"error": str(error)}, 400)
                else:
                    self.reply({"status": "ok"})
            case "/update_weight_version":
                model.version = asked["new_version"]
                self.reply({"success": True, "new_version": model.version})
            case path:
                self.reply({"error": f"no {path} here"}, 404)

    def choices(self, asked):
        """As OpenAI's completions have them, with the ids of tokens."""
        written = self.server.model.complete(
            asked["prompt"], asked["n"], asked["max_tokens"], asked["seed"],
            asked["temperature"] == 0,
        )  # fmt: skip
        return [
            {"index": index, "token_ids": tokens, "logprobs": {"token_logprobs": logs}}
            for index, (tokens, logs) in enumerate(written)
        ]

    def reply(self, found, status=200):
        """Send JSON."""
        data = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Say nothing of each request."""


def main():
    """Serve until killed; the address is printed once it is ready."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--env", default="ReverseText-v0")
    parser.add_argument("--model", default="artos")
    for name, usual in (("width", 96), ("layers", 2), ("heads", 4)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", given.port), Handler)
    server.daemon_threads = True
    server.model = Model(given.model, given.env, given.width, given.layers, given.heads)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
