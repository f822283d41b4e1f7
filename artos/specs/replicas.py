"""How many processes make each update of a learner together, as users say it."""

from __future__ import annotations

from collections.abc import Mapping

ReplicasSetting = int | Mapping[str, int]
WORDS = "write a number, or one for each learner, as in policy=2,model=3"
