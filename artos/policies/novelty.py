"""Networks that tell how new an observation is (Burda et al. 2018), and what they see of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from torch import Tensor, nn

from artos.envs.spec import EnvSpec, Part
from artos.policies.encoders import Encoder, Normalizer, flatten_all
from artos.policies.inputs import flat_width, picture
from artos.policies.relu_mlp import ReluMlp

_BOUND = 5.0
_GAIN = 2**0.5


class Scaled(nn.Module):
    """Observations whose numbers, pixels too, are scaled by running statistics.

    They are within -5 ... 5: a random network cannot adapt to what it sees. ``spec`` is that of
    the environment as it shows itself then.
    """

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        self.parts = spec.features
        self.normalizer = Normalizer(self.parts)
        self.spec = msgspec.structs.replace(spec, parts=tuple(map(_scaled, self.parts)), masked="")

    def forward(self, obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Parts by data key, (B, *shape) float32; flat ones are (B, width)."""
        scaled = self.normalizer(flatten_all(self.parts, obs)).clamp(-_BOUND, _BOUND)
        each = scaled.split([flat_width(part) for part in self.parts], 1)
        return {
            part.name: x.reshape(len(x), *part.shape)
            for part, x in zip(self.spec.parts, each, strict=True)
        }


def _scaled(part: Part) -> Part:
    if not picture(part):
        return Part(part.name, (flat_width(part),), "float32")
    shape = part.value_shape if len(part.value_shape) > 2 else (1, *part.value_shape)
    return Part(part.name, shape, "float32", low=0.0, high=1.0)  # read as before, divided by 1


class Embedding(nn.Module):
    """A CNN for each picture, then layers of these widths with ReLU between them."""

    def __init__(self, spec: EnvSpec, hidden: Sequence[int], out: int) -> None:
        super().__init__()
        self.encoder = Encoder(spec)
        self.layers = ReluMlp(self.encoder.width, hidden, out)
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, _GAIN)
                nn.init.zeros_(layer.bias)

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(B, out)."""
        found: Tensor = self.layers(self.encoder(obs))
        return found


def surprise(found: Tensor, wanted: Tensor) -> Tensor:
    """The mean square error of each row, (B, out) to (B,): large where the row is new."""
    return (found - wanted).square().mean(1)
