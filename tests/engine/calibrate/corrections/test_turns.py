"""In which order biases are corrected, and how that is read from what came of it."""

from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from engine.calibrate import ArrayData, CalibrationOptions, FloatSession, run_calibration
from engine.calibrate.corrections.bias import correct_in_turn
from engine.calibrate.corrections.turns import Turns, biases_of, convolutions, in_full, mean_per_channel, order_behind
from engine.errors import ConfigError
from engine.floats.border_columns import with_border_columns
from engine.floats.float_model import Kernels
from engine.ir import MARK_ON, set_constant
from engine.place import place
from tests.engine.calibrate.models import graph

CHANNELS, COUNT = 8, 4
DATA = {"x": np.random.default_rng(1).uniform(0, 2, (3, CHANNELS, 8, 8)).astype(np.float32)}


def chain(pads: tuple[int, ...] = ()) -> ir.Model:
    """Convolutions whose small weights become zero beside a large one, so that each is off by much on average.

    The first has no bias, and an average of 3 x 3 stands behind it where there are ``pads``.
    """
    rng = np.random.default_rng(0)
    nodes, constants, source = [], {}, "x"
    for index in range(COUNT):
        weight = rng.uniform(0, 0.45, (CHANNELS, CHANNELS, 1, 1)) / 127 * rng.uniform(0.5, 1.1)
        weight[range(CHANNELS), np.roll(range(CHANNELS), 1), 0, 0] = rng.uniform(0.8, 1.2, CHANNELS)
        constants[f"w{index}"] = weight.astype(np.float32)
        biases = [f"b{index}"] if index else []
        constants |= {name: rng.normal(0, 0.05, CHANNELS).astype(np.float32) for name in biases}
        result = "y" if index == COUNT - 1 else f"c{index}"
        nodes.append(helper.make_node("Conv", [source, f"w{index}", *biases], [result], name=f"conv{index}"))
        source = result
        if index == 0 and pads:
            attributes = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": pads}
            nodes.append(helper.make_node("AveragePool", [source], ["p"], name="pool", **attributes))
            source = "p"
        if index < COUNT - 1:
            nodes.append(helper.make_node("Relu", [source], [f"r{index}"], name=f"relu{index}"))
            source = f"r{index}"
    return graph(nodes, {"x": (1, CHANNELS, 8, 8)}, ["y"], constants)


def calibrated_chain(model: ir.Model) -> ir.Model:
    return run_calibration(model, place(model, "bayes-e").model, ArrayData(DATA), CalibrationOptions())


def turns_of(model: ir.Model) -> Turns:
    return Turns(model, calibrated_chain(model), {"x": DATA["x"][-1:]}, threads=1)


@pytest.mark.parametrize("order", list(itertools.permutations(range(COUNT)))[::5])
def test_the_order_is_read_from_the_biases(order: tuple[int, ...]) -> None:
    model = chain()
    calibrated, names = calibrated_chain(model), [f"conv{index}" for index in order]
    theirs = correct_in_turn(model, calibrated, ArrayData(DATA), order=names)
    assert order_behind(turns_of(model), biases_of(theirs)) == tuple(names)
    ours = correct_in_turn(model, calibrated, ArrayData(DATA), order_of=theirs)
    for name, bias in biases_of(theirs).items():
        np.testing.assert_array_equal(biases_of(ours)[name], bias)
    assert biases_of(theirs).keys() == {f"conv{index}" for index in range(COUNT)}


def test_orders_give_different_biases() -> None:
    turns = turns_of(chain())
    first, last = turns.taken(["conv0", "conv1"]), turns.taken(["conv1", "conv0"])
    assert np.abs(first["conv1"] - last["conv1"]).max() > 1e-3
    np.testing.assert_array_equal(first["conv0"], last["conv0"])


def test_a_convolution_that_stays_as_it_is_comes_where_it_is_dropped() -> None:
    turns = turns_of(chain())
    taken = turns.taken(["conv1", "conv0"])
    corrected = {name: np.asarray(turns.biases[name] - loss, np.float32) for name, loss in taken.items()}
    without = {name: bias for name, bias in corrected.items() if name != "conv2"}
    assert "conv2" not in order_behind(turns, without)  # it would be kept wherever it comes


def test_where_nothing_is_corrected_an_order_does_that() -> None:
    turns = turns_of(chain())
    assert turns.taken(["conv0"])
    assert turns.taken(order_behind(turns, {})) == {}


def test_biases_that_no_turn_gives_are_left_out() -> None:
    turns = turns_of(chain())
    strange = {"conv0": turns.biases["conv0"] + np.float32(1)}
    assert "conv0" not in order_behind(turns, strange)


def test_orders_name_convolutions() -> None:
    names = dict.fromkeys(["a", "b", "c"])
    assert in_full((), names) == ["c", "b", "a"]
    assert in_full(("b",), names) == ["b", "c", "a"]
    with pytest.raises(ConfigError, match="'d'"):
        in_full(("d",), names)


def test_convolutions_on_the_cpu_are_corrected_too() -> None:
    model = chain()
    calibrated = calibrated_chain(model)
    node = {str(each.name): each for each in calibrated.graph}["conv2"]
    for index, name in enumerate(("r1", "w2")):
        plain = {str(v.name): v for n in calibrated.graph for v in n.outputs} | dict(calibrated.graph.initializers)
        node.replace_input_with(index, plain[name])
    node.metadata_props[MARK_ON] = "CPU"
    corrected = correct_in_turn(model, calibrated, ArrayData(DATA), order=["conv2"])
    feed = {"x": DATA["x"][-1:]}
    found, wanted = (FloatSession(each, ["c2"]).run(feed)["c2"] for each in (calibrated, model))
    loss = biases_of(calibrated)["conv2"] - biases_of(corrected)["conv2"]
    np.testing.assert_allclose(loss, mean_per_channel(found - wanted), rtol=1e-4, atol=1e-7)
    assert np.abs(loss).max() > 1e-3


def test_averages_count_columns_on_the_right() -> None:
    """Otherwise the mean error would be that of the float network and of the calibrated one as they are."""
    model, feed = chain((1, 1, 1, 1)), {"x": DATA["x"][-1:]}
    losses = turns_of(model).taken(["conv2"])["conv2"]
    calibrated = calibrated_chain(model)

    def lost(*models: ir.Model) -> np.ndarray:
        found, plain = (FloatSession(each, ["c2"], kernels=Kernels.PLAIN).run(feed)["c2"] for each in models)
        return mean_per_channel(found - plain)

    np.testing.assert_allclose(lost(*map(with_border_columns, (calibrated, model))), losses, rtol=1e-5)
    assert np.abs(lost(calibrated, model) - losses).max() > 1e-5


def test_convolutions_have_a_constant_bias_or_none() -> None:
    model = chain()
    assert list(convolutions(model)) == [f"conv{index}" for index in range(COUNT)]
    set_constant(model.graph, convolutions(model)["conv1"], 2, np.ones(CHANNELS, np.float32))
    assert biases_of(model)["conv1"].tolist() == [1] * CHANNELS
    model.graph.initializers["b2"].const_value = None
    assert "conv2" not in convolutions(model)
