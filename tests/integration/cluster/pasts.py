"""The games of the docs against past versions; actors write down what those were.

They fail where a past version is not there.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import my_league
import my_self_play

from artos import Actor, Past, Workload
from artos.buffer.past_versions import past_of


class _Noting(Actor):
    """Adds a line ``[version, checksum]`` for each past version that it binds."""

    def bind(self, params: Any, version: int) -> None:
        pasts = self.bound.pasts
        assert [past.version for past in pasts] == past_of(version, self.history, self.every)
        with Path("pasts.jsonl").open("a") as file:
            for past in pasts:
                rest = float(past.objects["temperature"]) if self.reads else 0.0
                said = [past.version, crc32(past.params.tobytes()), rest]
                file.write(f"{json.dumps(said)}\n")
        super().bind(params, version)


class Player(_Noting, my_self_play.Player):
    """Rock, paper, scissors."""


class League(_Noting, my_league.League):
    """Nim."""


def self_play(actors: int = 2, total_updates: int = 400) -> Workload:
    made = my_self_play.workload(total_updates)
    return replace(made, actor=Player(history=8, every=5), actors=actors)


def league(actors: int = 2, total_steps: int = 10_000) -> Workload:
    actor = League(
        "pettingzoo:my_league", {"first": "self", "second": Past("self")},
        envs=8, history=8, every=3, swap=True,
    )  # fmt: skip
    return replace(my_league.workload(total_steps), actor=actor, actors=actors)
