"""The node where an integer model leaves the float model is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from engine.calibrate.data.sources import ArrayData
from engine.debug.bisection import breaks
from engine.debug.bisection.breaks import Break, broken_in_words, first_break, usual_break
from engine.floats.compare import Distance
from engine.floats.health import HealthMeter
from tests.e2e.field_cases import converted


def test_the_node_that_breaks_is_named(tmp_path: Path) -> None:
    options = {"calibration__optimization": "set_model_output_int8"}
    models = converted(tmp_path, "boxes_and_scores.onnx", **options).models
    (value,) = models["original_float"].graph.inputs
    feed = {str(value.name): np.random.default_rng(1).uniform(-2, 2, (1, 3, 8, 8)).astype(np.float32)}
    stages = models["optimized_float"], models["calibrated"], models["quantized"]
    found = first_break(*stages, feed, 10.0)
    assert found is not None
    assert (found.node, found.op_type) == ("cat", "Concat")
    assert found.sqnr < 10
    assert found.before > found.sqnr
    assert first_break(*stages, feed, -100.0) is None


def test_several_samples_are_looked_at(tmp_path: Path) -> None:
    options = {"calibration__optimization": "set_model_output_int8"}
    models = converted(tmp_path, "boxes_and_scores.onnx", **options).models
    (value,) = models["original_float"].graph.inputs
    samples = np.random.default_rng(1).uniform(-2, 2, (20, 3, 8, 8)).astype(np.float32)
    data = ArrayData({str(value.name): samples})
    found = usual_break(models["optimized_float"], models["calibrated"], models["quantized"], data)
    assert found is not None
    assert (found.node, found.samples, found.of, found.others) == ("cat", 8, 8, ())
    assert str(found).startswith("It breaks at node cat (Concat) in 8 of 8 samples: the SQNR of the worst part of ")


def test_the_node_where_most_samples_break_is_named_with_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sample breaks nowhere, the second elsewhere."""
    first = {
        0: None,
        1: Break("a", "Conv", 9.0, 30.0),
        2: Break("b", "Conv", 3.0, 30.0),
        3: Break("b", "Conv", 1.0, 9.0),
    }
    monkeypatch.setattr(breaks, "first_break", lambda *given: first[int(given[-1]["x"][0, 0])])
    data = ArrayData({"x": np.arange(4, dtype=np.float32).reshape(4, 1)})
    large = ir.Model(ir.Graph([], [], nodes=[]), ir_version=8)
    found = usual_break(large, large, large, data)
    assert found == Break("b", "Conv", 1.0, 9.0, samples=2, of=4, others=(("a", 1),))
    assert str(found).startswith(
        "It breaks at node b (Conv) in 2 of 4 samples (at a in 1): the SQNR of its result is 1.0"
    )


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
