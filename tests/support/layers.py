"""Which tests need a throw-away layer."""

from __future__ import annotations

import pytest

from evaluation.lab.layer import lacking

_WHY = lacking()
needs_layer = pytest.mark.skipif(bool(_WHY), reason=_WHY)
