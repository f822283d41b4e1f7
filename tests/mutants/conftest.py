"""Property tests under mutants: the same examples each time, and a failing one stays as it is.

Whether a mutant is noticed is asked here, not by how small an example.
"""

import os

from hypothesis import Phase, settings

if "MUTANT_UNDER_TEST" in os.environ:
    settings.register_profile(
        "mutants", derandomize=True, database=None, deadline=None,
        phases=(Phase.explicit, Phase.generate),
    )  # fmt: skip
    settings.load_profile("mutants")
