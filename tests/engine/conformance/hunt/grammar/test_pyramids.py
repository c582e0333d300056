"""Ways up: their sizes, also where halves are odd."""

from __future__ import annotations

import numpy as np
import pytest

from engine.conformance.hunt.grammar.pyramids import NECKS, UPS, pixel_shuffle, u_net
from tests.engine.conformance.hunt.grammar.running import SEEDS, drawing, output_of


@pytest.mark.parametrize("up", dict.fromkeys(UPS), ids=lambda up: up.__name__)
def test_an_up_doubles_the_size(up: object) -> None:
    for seed in SEEDS:
        net = drawing(seed)
        (found,) = output_of(net, up(net, "x", 24, 24))  # type: ignore[operator]
        assert found.shape[2:] == (24, 24)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("neck", [*dict.fromkeys(NECKS), u_net], ids=lambda neck: neck.__name__)
@pytest.mark.parametrize("size", [(16, 16), (15, 18)])
def test_a_neck_joins_levels_of_any_sizes(neck: object, seed: int, size: tuple[int, int]) -> None:
    net = drawing(seed, 1, 3, *size)
    levels = [net.layer("x", 8, 3)]
    levels.append(net.layer(levels[0], 8, 3, 2))
    found = output_of(net, *neck(net, levels))  # type: ignore[operator]
    assert found[0].shape[2:] == size


def test_pixels_come_from_channels_in_the_order_of_pytorch() -> None:
    for seed in range(4):
        net = drawing(seed)
        shuffled = pixel_shuffle(net, "x", 2)
        node = next((node for node in net._nodes if node.op_type == "DepthToSpace"), None)
        (found,) = output_of(net, shuffled)
        if node is not None and b"DCR" in [each.s for each in node.attribute]:
            continue
        x = net.data()["x"][0].reshape(1, 2, 2, 2, 12, 12)
        assert np.array_equal(found, x.transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 24, 24))
