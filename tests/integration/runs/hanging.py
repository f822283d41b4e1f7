"""An algorithm whose updates take for as long as there is a file called ``hang``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from faulty_algorithms import Learner, assemble

from artos import Workload


class Hanging(Learner):
    """Says that it has begun an update by a file called ``begun``."""

    def update(self, batch: Any, call: Any) -> dict[str, float]:
        Path("begun").touch()
        while Path("hang").exists():
            time.sleep(0.002)
        return super().update(batch, call)


def workload(total_steps: int = 80) -> Workload:
    return assemble(Hanging(), total_steps=total_steps)
