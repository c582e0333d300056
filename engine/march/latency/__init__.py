"""What the compiler and the performance model know of each march: alignments, rates, bandwidths, fixed costs.

One YAML file per march beside this module. ``python -m engine.perf.fit --write`` rewrites the fitted numbers.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict

from engine.errors import UnsupportedError


class WeightBlock(BaseModel):
    """Channels that convolution weights are padded to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    out_channels: int
    in_channels: int


class Latency(BaseModel):
    """Performance data of one march."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight_block: WeightBlock


def marches() -> tuple[str, ...]:
    """Names of the marches that have performance data."""
    files = resources.files(__package__).iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


@cache
def load_latency(march: str) -> Latency:
    """Performance data of ``march``.

    Raises:
        UnsupportedError: there is no such march; the message lists those that exist.
    """
    if march not in marches():
        raise UnsupportedError(f"march {march!r} has no performance data; it should be one of {list(marches())}")
    text = (resources.files(__package__) / f"{march}.yaml").read_text(encoding="utf-8")
    return Latency.model_validate(yaml.safe_load(text))
