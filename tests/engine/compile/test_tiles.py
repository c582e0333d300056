"""Running tile by tile gives the quantised model's bits, whatever the size of the tiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.chips import load_chip as load_chip
from engine.chips.latency import load_latency
from engine.compile import CompiledModel, compile_model
from engine.compile.tiles import TiledRun, runs_of, tiled_model, tiles_of
from engine.ir import load_model
from engine.ops.core.rows import Rows, window_of
from engine.place import NodeTypes, PlacementOptions
from engine.place.options import INT16
from engine.simulate import Session
from engine.terms import Device
from tests.properties.stages import MARCHES, Stages, evidence
from tests.strategies.graphs import GraphCase, graph_cases

ZOO = Path(__file__).parents[3] / "suites" / "zoo"
SMALLEST = 0
"""No tile fits: every run is cut as finely as it can be."""


def tiled(compiled: CompiledModel, tile_bytes: int) -> ir.Model:
    return tiled_model(compiled.model, compiled.segments, compiled.schedules, tile_bytes)


def runs(compiled: CompiledModel) -> list[TiledRun]:
    on_bpu = (segment for segment in compiled.segments if segment.device is Device.BPU)
    pairs = zip(on_bpu, compiled.schedules, strict=True)
    return [run for segment, schedule in pairs for run in runs_of(segment, schedule)]


def random_feed(model: ir.Model, seed: int) -> dict[str, NDArray]:
    rng = np.random.default_rng(seed)
    feed: dict[str, NDArray] = {}
    for info in Session(model).inputs:
        is_integer = np.issubdtype(info.dtype, np.integer)
        values = rng.integers(-128, 128, info.shape) if is_integer else rng.normal(size=info.shape)
        feed[info.name] = values.astype(info.dtype)
    return feed


def assert_same_bits(model: ir.Model, other: ir.Model, feed: dict[str, NDArray]) -> None:
    expected, actual = Session(model).run(feed), Session(other).run(feed)
    assert list(actual) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(actual[name], values, err_msg=name, strict=True)


def int16_requests(model: onnx.ModelProto, march: str, chosen: int) -> PlacementOptions:
    """Requests for int16 by nodes whose bit of ``chosen`` is set, on a march that has int16."""
    wide = NodeTypes(input_type=INT16, output_type=INT16)
    nodes = model.graph.node if load_chip(march).int16 else []
    return PlacementOptions(node_info={node.name: wide for i, node in enumerate(nodes) if chosen >> i & 1})


@pytest.mark.parametrize(
    "march", [pytest.param(march, marks=pytest.mark.nightly if march == "bayes" else ()) for march in MARCHES]
)
@given(
    case=graph_cases(),
    tile_bytes=st.sampled_from((SMALLEST, 256, 1024, 4096)),
    chosen=st.just(0) | st.integers(0, 2**24 - 1),
)
def test_tiles_give_the_bits_of_the_quantized_model(march: str, case: GraphCase, tile_bytes: int, chosen: int) -> None:
    stages = Stages(case.model, case.calibration, march, placement=int16_requests(case.model, march, chosen))
    with evidence("tiles", stages, case.blocks, "bin", samples=case.samples):
        assert_same_bits(stages.quantized, tiled(stages.compiled, tile_bytes), {"x": case.samples})


@given(
    st.integers(1, 12), st.integers(1, 5), st.integers(1, 3), st.integers(1, 2), st.integers(0, 4), st.integers(0, 4)
)
@example(height=7, kernel=3, stride=2, dilation=1, above=1, below=1)
def test_a_window_is_the_rows_that_a_convolution_reads(
    height: int, kernel: int, stride: int, dilation: int, above: int, below: int
) -> None:
    extent = (kernel - 1) * dilation + 1
    above, below = min(above, extent - 1), min(below, extent - 1)
    out = (height + above + below - extent) // stride + 1
    if out < 1:
        return
    node = convolution(height, kernel, stride, dilation, (above, below))
    padded = [None] * above + list(range(height)) + [None] * below
    for row in range(out):
        read = padded[row * stride : row * stride + extent]
        inside = [entry for entry in read if entry is not None]
        window = window_of(node, Rows(row, row + 1))
        if inside:
            assert window.rows == Rows(inside[0], inside[-1] + 1)
            assert window.above + len(inside) + window.below == extent
            assert window.above == (read.index(inside[0]))


def convolution(height: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int]) -> ir.Node:
    attributes = {
        "kernel_shape": (kernel, 1),
        "strides": (stride, 1),
        "dilations": (dilation, 1),
        "pads": (pads[0], 0, pads[1], 0),
    }
    x = ir.Value(name="x", shape=ir.Shape([1, height, 4, 4]), type=ir.TensorType(ir.DataType.INT8))
    return ir.node("HzSQuantizedConv", [x], attributes, domain="horizon")


@pytest.mark.parametrize("march", MARCHES)
@pytest.mark.parametrize("name", ["mnist_lenet", "mnist_mobilenet", "mnist_resnet8"])
def test_zoo_models_run_tile_by_tile(name: str, march: str) -> None:
    model = onnx.load(ZOO / f"{name}.onnx")
    shape = [dimension.dim_value or 1 for dimension in model.graph.input[0].type.tensor_type.shape.dim]
    calibration = np.random.default_rng(0).normal(size=(2, *shape[1:])).astype(np.float32)
    stages = Stages(model, calibration, march)
    cut = tiled(stages.compiled, SMALLEST)
    assert sum(node.op_type == "Slice" for node in cut.graph) > 4
    assert_same_bits(stages.quantized, cut, random_feed(stages.quantized, 1))


@pytest.mark.nightly
@pytest.mark.reference
@pytest.mark.parametrize("tile_bytes", [SMALLEST, 2048])
def test_files_of_the_original_run_tile_by_tile(reference_dir: Path, tile_bytes: int) -> None:
    paths = sorted((reference_dir / "golden" / "conversions").glob("*.quant.onnx"))
    assert paths
    for path in paths:
        model = load_model(path)
        march = "bernoulli2" if "bernoulli2" in path.name else "bayes-e"
        assert_same_bits(model, tiled(compile_model(model, march), tile_bytes), random_feed(model, 2))


def residual() -> CompiledModel:
    path = Path(__file__).parents[2] / "golden" / "conversions" / "i16_res.quant.onnx"
    return compile_model(load_model(path), "bayes-e")


@pytest.mark.parametrize("tile_bytes", [SMALLEST, 1024, 4096])
def test_tiles_cover_what_leaves_a_run_and_fit(tile_bytes: int) -> None:
    found = runs(residual())
    assert found
    for run in found:
        bands = tiles_of(run, tile_bytes)
        for value in run.exits:
            assert {row for band in bands for row in range(band[value].start, band[value].stop)} == set(
                range(value.shape[1])
            )


def test_maps_that_fit_are_not_cut() -> None:
    compiled = residual()
    assert all(len(tiles_of(run, load_latency("bayes-e").group_bytes)) == 1 for run in runs(compiled))
    assert len(tiled(compiled, load_latency("bayes-e").group_bytes).graph) == len(compiled.model.graph)
