"""Data sets of a workload: rows that are there from the start and that no actor writes."""

from __future__ import annotations

import re

import msgspec

from artos.specs.fields import Count
from artos.specs.keys import DataKey

NO_VERSION = -1
"""The ``policy_version`` of rows of a data set: no policy of this run made them."""
SET_NAME = re.compile(r"[A-Za-z]\w{0,63}")
"""What a data set may be called."""


class Rows(msgspec.Struct, frozen=True):
    """A data set: ``Rows("demos.npz")``, or ``Rows("runs/dqn-CartPole-1")``.

    A file of NumPy's (``.npz``, read without pickle) has one array for each data key, (rows,
    *shape), or (rows, environments, *shape) for environments side by side, in the key's dtype. Rows
    are in the order in which they were made, as in an actor's block: ``valid`` is False on a row
    that only holds an episode's last observation, and ``ages`` is 0 where an episode begins. What
    is stored of a stack is its newest frame.

    The folder of a run stands for the rows that its checkpoint has, and ``minari:ID`` for a data
    set of Minari's that is on the machine (``minari:D4RL/pen/human-v2``).

    Where each policy has rows of its own, they are those of the policy that draws from it, by the
    names that its learner has for them; or it has ``POLICY/KEY``, as the run of several policies.

    A path is relative to the folder of the workload's file, on the machine where the learner is.
    """

    path: str


class DataSet(msgspec.Struct, frozen=True):
    """A data set as a plan has it."""

    name: str
    path: str
    """Absolute."""
    rows: Count
    envs: Count
    """Environments side by side in each row."""
    keys: tuple[DataKey, ...]
    """Those of the run's data keys that it has; of its policy's, as the learner has them."""
    policy: str = ""
    """Whose agents' rows it has, where each policy has rows of its own."""
