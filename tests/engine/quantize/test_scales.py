"""Where the scale of a tensor comes from that is not calibrated itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import apply_thresholds
from engine.errors import ModelError
from engine.ir import Calibration, before_calibration, calibration_nodes
from engine.place import PlacementOptions, place
from engine.quantize.scales import calibration_before, calibration_behind, own_calibration
from tests.engine.place.networks import network

BOUNDS = {"low": np.array([0]), "mid": np.array([2]), "high": np.array([4]), "axis": np.array([1])}
WIDTHS = {"widths": np.array([0, 0, 0, 0, 0, 0, 1, 1])}


def numbered(nodes: Sequence[onnx.NodeProto]) -> tuple[ir.Model, dict[str, ir.Value]]:
    """A calibrated model for bayes-e, each activation with a threshold of its own, and its values by name."""
    model = place(network(list(nodes), constants=BOUNDS | WIDTHS), "bayes-e", PlacementOptions()).model
    names = [str(before_calibration(node.outputs[0]).name) for node in calibration_nodes(model)]
    model = apply_thresholds(model, {name: np.float32([1 + i]) for i, name in enumerate(names)})
    return model, {str(value.name): value for node in model.graph for value in node.outputs}


def threshold(found: Calibration | None) -> float | None:
    return None if found is None else float(found.thresholds[0])


def test_a_tensor_has_the_calibration_that_reads_it() -> None:
    _, values = numbered([helper.make_node("Sigmoid", ["c0"], ["m"], name="S")])
    own = [threshold(own_calibration(values[name])) for name in ("c0", "m", "y")]
    assert len({each for each in own if each is not None}) == 2
    assert own[2] is None
    assert [threshold(calibration_before(values[name])) for name in ("c0", "m", "y")] == own


def test_what_is_moved_has_the_calibration_of_what_it_is_moved_from() -> None:
    """Integers that a Transpose moves and only the CPU reads are not calibrated again."""
    nodes = [
        helper.make_node("Sigmoid", ["c0"], ["s"], name="S"),
        helper.make_node("Transpose", ["s"], ["t"], name="T", perm=[0, 1, 3, 2]),
        helper.make_node("Neg", ["t"], ["n"], name="N"),
        helper.make_node("Neg", ["n"], ["m"], name="Middle"),
    ]
    _, values = numbered(nodes)
    assert own_calibration(values["t"]) is None
    assert threshold(calibration_before(values["t"])) == threshold(own_calibration(values["s"])) is not None
    assert calibration_before(values["n"]) is None  # the CPU computes it, and reads it


@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_what_is_moved_on_takes_the_first_calibration_behind(mode: str) -> None:
    """Through Slices and through Pads, also those that went to the CPU late."""
    nodes = [
        helper.make_node("Neg", ["c0"], ["n"], name="N"),
        helper.make_node("Slice", ["n", "low", "high", "axis"], ["s"], name="S"),
        helper.make_node("Pad", ["s", "widths"], ["m"], name="P", mode=mode),
    ]
    model, values = numbered(nodes)
    name, found = calibration_behind(model, values["n"])
    assert (name, threshold(found)) == ("m", threshold(own_calibration(values["m"])))


def test_what_leads_to_no_calibration_is_an_error_that_names_the_tensor() -> None:
    model, values = numbered([helper.make_node("Relu", ["c0"], ["m"], name="R")])
    with pytest.raises(ModelError, match="tensor y is read by a BPU node and is not calibrated"):
        calibration_behind(model, values["y"])
