"""The gradient noise scale (McCandlish et al. 2018): how many rows a batch can usefully hold."""

from __future__ import annotations

from torch import Tensor

_MOST = 1e9


class GradientNoise:
    """Estimates tr(Σ) / |G|² from the gradients of minibatches and from their sum.

    Appendix A.1 of the paper: the squared norm of a gradient of B rows is |G|² + tr(Σ) / B on
    average, so two sizes of B tell both apart. Both are averaged over updates, with weight
    ``decay`` on the past, before they are divided. The cost is only that of the sum, since the
    learner steps with these gradients anyway. The estimate neglects that weights move a little
    from minibatch to minibatch, so use only gradients of the first pass over the rows.
    """

    def __init__(self, decay: float = 0.9) -> None:
        self._decay = decay
        self._signal = self._noise = 0.0
        self._sum: Tensor | None = None
        self._squares: Tensor | float = 0.0
        self._count = 0

    def add(self, gradient: Tensor) -> None:
        """Note the gradient of one of several equal minibatches. The tensor may be reused."""
        self._sum = gradient.clone() if self._sum is None else self._sum.add_(gradient)
        self._squares = self._squares + gradient.square().sum().double()
        self._count += 1

    def estimate(self, rows: int) -> float:
        """End an update whose minibatches held ``rows`` rows in all; returns the scale in rows.

        Rows that are learned from: none of them tell nothing, and the estimate stays as it was.

        Raises:
            ValueError: fewer than two minibatches were noted, which tells nothing.
        """
        if self._sum is None or self._count < 2:
            raise ValueError("the gradient noise scale needs at least 2 minibatches")
        small = float(self._squares) / self._count
        large = float(self._sum.square().sum()) / self._count**2
        few = rows / self._count
        self._sum, self._squares, self._count = None, 0.0, 0
        if rows:
            keep, new = self._decay, 1 - self._decay
            signal = (rows * large - few * small) / (rows - few)
            self._signal = keep * self._signal + new * signal
            self._noise = keep * self._noise + new * (small - large) / (1 / few - 1 / rows)
        if self._noise <= 0:
            return 0.0
        # Where noise hides the gradient altogether, its estimate may come out negative.
        return min(_MOST, self._noise / self._signal) if self._signal > 0 else _MOST
