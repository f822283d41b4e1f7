"""Whether this machine has what torch needs to compile for its CPUs."""

import pytest

from artos.learners.compiler import faults

LACKING = [*faults("cpu")]
needs_compiler = pytest.mark.skipif(bool(LACKING), reason=" ".join(LACKING))
