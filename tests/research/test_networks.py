"""Named networks: weights of the published ones, counted from their layers."""

from __future__ import annotations

from typing import Any

import pytest

from research.networks import NETWORKS, Layers, efficientnet_lite0, resnet18, squeezenet1_1, unet256


def weights(layers: Layers) -> int:
    """Weights without biases; every source must be given by a layer before."""
    width = {"data": 3}
    total = 0
    for layer in layers:
        inside = [width[source] for source in layer["i"]]
        out = sum(inside) if layer["op"] == "concat" else inside[0]
        if layer["op"] in ("conv", "deconv"):
            groups = inside[0] if layer.get("g") == "dw" else 1
            out = layer["cout"]
            total += out * inside[0] // groups * layer["k"] ** 2
        if layer["op"] == "add":
            assert inside[0] == inside[1]
        assert layer["n"] not in width
        width[layer["n"]] = out
    return total


def strides(layers: Layers) -> int:
    """Product of the strides of all convolutions on the way to the last layer, by the first source of each."""
    by_name = {layer["n"]: layer for layer in layers}
    found, name = 1, layers[-1]["n"]
    while name != "data":
        layer = by_name[name]
        found *= layer.get("s", 2 if layer["op"] == "maxpool" else 1) if layer["op"] in ("conv", "maxpool") else 1
        name = layer["i"][0]
    return found


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (resnet18, 11_689_512 - 9_600 - 1000),  # torchvision's, without normalisations and the last bias
        (squeezenet1_1, 1_235_496 - 64 - sum(9 * s for s in (16, 16, 32, 32, 48, 48, 64, 64)) - 1000),
        (efficientnet_lite0, 4_652_008 - 42_016 - 1000),
    ],
)
def test_weights_are_those_of_the_published_network(network: Any, expected: int) -> None:
    assert weights(network()) == expected


def test_the_u_net_has_four_levels_and_two_ways_up() -> None:
    base = 16
    down = [(3, base), (base, base << 1), (base << 1, base << 2), (base << 2, base << 3), (base << 3, base << 4)]
    double = sum(9 * (a * b + b * b) for a, b in down)
    up = sum(9 * ((2 * base << n) * (base << n) + (base << n) ** 2) for n in range(4))
    steps = sum((4 if n % 2 else 1) * (base << n + 1) * (base << n) for n in range(4))
    assert weights(unet256()) == double + up + steps + 8 * base
    kinds = [layer["op"] for layer in unet256()]
    assert (kinds.count("deconv"), kinds.count("resize"), kinds.count("maxpool")) == (2, 2, 4)


@pytest.mark.parametrize("network", [resnet18, efficientnet_lite0])
def test_maps_shrink_by_32(network: Any) -> None:
    assert strides(network()) == 32


def test_names_are_those_of_the_corpus_and_every_layer_is_read() -> None:
    assert set(NETWORKS) == {"resnet18", "squeezenet1_1", "unet256", "efficientnet_lite0.onnx"}
    assert {name: len(make()) for name, make in NETWORKS.items()} == {
        "resnet18": 31,
        "squeezenet1_1": 38,
        "unet256": 33,
        "efficientnet_lite0.onnx": 60,
    }
