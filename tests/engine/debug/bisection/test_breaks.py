"""The node where an integer model leaves the float model is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.calibrate.forward.compare import Distance
from engine.calibrate.forward.health import HealthMeter
from engine.debug.bisection.breaks import Break, broken_in_words, first_break
from tests.e2e.field_cases import converted


def test_the_node_that_breaks_is_named(tmp_path: Path) -> None:
    options = {"calibration__optimization": "set_model_output_int8"}
    models = converted(tmp_path, "boxes_and_scores.onnx", **options).models
    (value,) = models["original_float"].graph.inputs
    feed = {str(value.name): np.random.default_rng(1).uniform(-2, 2, (1, 3, 8, 8)).astype(np.float32)}
    stages = models["optimized_float"], models["calibrated"], models["quantized"]
    found = first_break(*stages, feed, 10.0)
    assert found is not None
    assert (found.node, found.op_type) == ("sigmoid", "Sigmoid")
    assert found.sqnr < 10
    assert found.before > found.sqnr
    assert first_break(*stages, feed, -100.0) is None


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (
            Break("c", "Conv", 2.04, 30.0),
            "It breaks at node c (Conv): the SQNR of its result is 2.0 dB, that of what it reads 30.0 dB. Give it "
            "int16 or the CPU in node_info, or see ptqlab bisect and hmct-debugger.",
        ),
        (Break("c", "Conv", -0.01, float("inf")), "It breaks at node c (Conv): the SQNR of its result is 0.0 dB. Give"),
        (
            Break("p", "HzPreprocess", 2.0, float("inf")),
            "It breaks at node p (HzPreprocess): the SQNR of its result is 2.0 dB. It rounds the input to pixels: are",
        ),
        (
            Break("c", "Conv", float("nan"), 3.0),
            "It breaks at node c (Conv), whose result holds NaN or infinity: look at the data and the weights.",
        ),
        (
            Break("c", "Add", float("nan"), 3.0, "Do that."),
            "It breaks at node c (Add), whose result holds NaN or infinity: Do that.",
        ),
        (
            Break("c", "Add", 2.0, 30.0, "Do that."),
            "It breaks at node c (Add): the SQNR of its result is 2.0 dB, that of what it reads 30.0 dB. Do that.",
        ),
    ],
)
def test_what_breaks_and_what_to_do(where: Break, text: str) -> None:
    assert str(where).startswith(text)


def test_nothing_is_said_and_looked_for_where_nothing_is_broken() -> None:
    def refuse() -> Break | None:
        raise AssertionError

    assert broken_in_words({"y": Distance(cosine=0.99, l1=0.0, l2=0.0, chebyshev=0.0)}, refuse) == ()


def test_outputs_then_the_node_then_the_shared_scale() -> None:
    rng = np.random.default_rng(0)
    exact = np.concatenate([rng.uniform(0, 600, (1, 4, 64)), rng.uniform(0, 1, (1, 8, 64))], axis=1)
    joined = HealthMeter()
    joined.add(np.rint(exact / 5) * 5, exact)
    far = Distance(cosine=0.4, l1=0.0, l2=0.0, chebyshev=0.0)
    where = Break("sigmoid", "Sigmoid", 0.0, float("inf"))
    first, second, node, scale = broken_in_words({"y": joined.distance(), "z": far}, lambda: where)
    assert first.startswith("Output y of the integer model is broken: 8 of 12 slices of axis 1 (4 to 11) are constant")
    assert second == "Output z of the integer model is broken: its cosine to the float model is 0.4000 (floor 0.95)."
    assert node == str(where)
    assert "end the network in front of it (output_nodes)" in scale
    assert broken_in_words({"z": far}, lambda: None) == (second,)
