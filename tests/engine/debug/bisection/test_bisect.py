from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from engine.calibrate import CalibrationOptions, StatisticsOptions, calibrate, calibration_tensors, collect
from engine.compile import compile_model
from engine.config import InputSpec
from engine.debug.bisection.bisect import Material, bisect
from engine.debug.bisection.minimise import MinimalCase, minimise
from engine.debug.bisection.stages import StageName
from engine.frontend import preprocess
from engine.frontend.onnx import load_onnx
from engine.ir import calibration_nodes, constant_of, read_calibration
from engine.optimize import optimize
from engine.place import PlacementOptions, place
from engine.quantize import quantize
from engine.simulate import Session
from engine.simulate.loaders import open_model
from engine.terms import InputType, Layout, NormType

MARCH = "bayes-e"
SIZE = 8
MEAN, SCALE = (123.7, 116.3, 103.5), (0.017, 0.0175, 0.0174)


def network(seed: int) -> onnx.ModelProto:
    """A random network on RGB images: convolutions, some depthwise, with Relu, residual additions and pooling."""
    rng = np.random.default_rng(seed)
    nodes, weights, channels, name = [], [], 3, "image"
    for index in range(int(rng.integers(2, 5))):
        depthwise = channels != 3 and rng.random() < 0.3
        wanted = channels if depthwise or (index and rng.random() < 0.4) else int(rng.integers(2, 5)) * 4
        shape = (wanted, 1 if depthwise else channels, 3, 3)
        spread = np.sqrt(2 / np.prod(shape[1:]))
        weights.append(numpy_helper.from_array((rng.standard_normal(shape) * spread).astype(np.float32), f"w{index}"))
        weights.append(numpy_helper.from_array(rng.standard_normal(wanted).astype(np.float32) * 0.1, f"b{index}"))
        nodes.append(
            helper.make_node(
                "Conv",
                [name, f"w{index}", f"b{index}"],
                [f"c{index}"],
                f"Conv_{index}",
                pads=[1, 1, 1, 1],
                group=channels if depthwise else 1,
            )
        )
        nodes.append(helper.make_node("Relu", [f"c{index}"], [f"r{index}"], f"Relu_{index}"))
        if wanted == channels:
            nodes.append(helper.make_node("Add", [f"r{index}", name], [f"a{index}"], f"Add_{index}"))
        name, channels = nodes[-1].output[0], wanted
    weights.append(numpy_helper.from_array(rng.standard_normal((5, channels, 1, 1)).astype(np.float32), "w_last"))
    nodes.append(helper.make_node("Conv", [name, "w_last"], ["out"], "Conv_last"))
    graph = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 5, SIZE, SIZE])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)


@dataclass
class Conversion:
    """A conversion into which faults are planted: what follows a faulty stage is made from it.

    Attributes:
        seed: of the network and its inputs.
        folder: where files may be written.
        sound: stages of the conversion without a fault, as far as they are made already.
        given: stages that are not what the conversion would make.
    """

    seed: int
    folder: Path
    sound: Mapping[StageName, ir.Model] = field(default_factory=dict)
    given: dict[StageName, ir.Model] = field(default_factory=dict)

    @cached_property
    def images(self) -> NDArray[np.float32]:
        """Three RGB images minus 128, whole numbers."""
        rng = np.random.default_rng(self.seed + 1)
        return rng.integers(-128, 128, (3, 3, SIZE, SIZE)).astype(np.float32)

    @property
    def source_feed(self) -> dict[str, NDArray[np.float32]]:
        """The images, normalised by hand."""
        mean, scale = (np.reshape(values, (1, 3, 1, 1)) for values in (MEAN, SCALE))
        return {"image": ((self.images + 128 - mean) * scale).astype(np.float32)}

    def make(self, last: StageName = StageName.BIN) -> dict[StageName, ir.Model]:
        """All stages up to ``last``."""
        made: dict[StageName, ir.Model] = {}
        for stage in STAGES[: STAGES.index(last) + 1]:
            is_sound = not any(earlier in self.given for earlier in made)
            if stage in self.given:
                made[stage] = self.given[stage]
            elif is_sound and stage in self.sound:
                made[stage] = self.sound[stage]
            else:
                made[stage] = self._made_from(made, stage)
        return made

    def _made_from(self, made: Mapping[StageName, ir.Model], stage: StageName) -> ir.Model:
        match stage:
            case StageName.SOURCE:
                onnx.save(network(self.seed), self.folder / "source.onnx")
                return load_onnx(self.folder / "source.onnx")
            case StageName.ORIGINAL:
                return with_preprocessing(made[StageName.SOURCE], MEAN)
            case StageName.OPTIMIZED:
                return optimize(made[StageName.ORIGINAL], MARCH)
            case StageName.CALIBRATED:
                optimized, feed = made[StageName.OPTIMIZED], {"image": self.images}
                placed = place(optimized, MARCH, PlacementOptions()).model
                statistics = collect(optimized, calibration_tensors(placed), feed, StatisticsOptions())
                return calibrate(placed, statistics, CalibrationOptions())
            case StageName.QUANTIZED:
                return quantize(made[StageName.CALIBRATED], MARCH)
        return self.compiled(made[StageName.QUANTIZED])

    def material(self, stages: Mapping[StageName, ir.Model], **others: Any) -> Material:
        """``stages`` with the images."""
        return Material(stages, {"image": self.images}, self.source_feed, **others)

    def compiled(self, quantized: ir.Model) -> ir.Model:
        """What a ``.bin`` of ``quantized`` holds."""
        compile_model(quantized, MARCH).save(self.folder / "model.bin")
        return open_model(self.folder / "model.bin")


STAGES = list(StageName)[:6]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Conversion]:
    """Conversions without a fault by seed, each made once."""

    @cache
    def convert(seed: int) -> Conversion:
        folder = tmp_path_factory.mktemp("sound")
        return Conversion(seed, folder, Conversion(seed, folder).make())

    return convert


def with_preprocessing(source: ir.Model, mean: tuple[float, ...], kind: InputType = InputType.RGB) -> ir.Model:
    spec = InputSpec(
        name="image",
        type_train=kind,
        layout_train=Layout.NCHW,
        type_rt=InputType.RGB,
        norm_type=NormType.MEAN_AND_SCALE,
        mean=mean,
        scale=SCALE,
    )
    return preprocess.insert(source, [spec])


PREPROCESS = "HZ_PREPROCESS_FOR_image"


def wrong_mean(conversion: Conversion, rng: np.random.Generator) -> tuple[StageName, str]:
    mean = list(MEAN)
    mean[int(rng.integers(3))] += float(rng.choice([-1, 1]) * rng.uniform(0.5, 60))
    conversion.given[StageName.ORIGINAL] = with_preprocessing(conversion.sound[StageName.SOURCE], tuple(mean))
    return StageName.ORIGINAL, PREPROCESS


def swapped_rgb(conversion: Conversion, rng: np.random.Generator) -> tuple[StageName, str]:
    conversion.given[StageName.ORIGINAL] = with_preprocessing(conversion.sound[StageName.SOURCE], MEAN, InputType.BGR)
    return StageName.ORIGINAL, PREPROCESS


def broken_pass(conversion: Conversion, rng: np.random.Generator) -> tuple[StageName, str]:
    """A channel of a weight, or a bias, comes out of the optimisation wrong."""
    model = conversion.sound[StageName.OPTIMIZED].clone()
    node = choose(rng, [node for node in model.graph if node.op_type == "Conv"])
    name = str(node.name)
    array = constant_of(node.inputs[1]).copy()
    array[int(rng.integers(len(array)))] *= float(rng.choice([-1.0, 0.0, 0.5]))
    set_constant(node, 1, array)
    conversion.given[StageName.OPTIMIZED] = model
    return StageName.OPTIMIZED, name


def bad_threshold(conversion: Conversion, rng: np.random.Generator) -> tuple[StageName, str]:
    model = conversion.sound[StageName.CALIBRATED].clone()
    node = choose(rng, list(calibration_nodes(model)))
    calibration = read_calibration(node)
    factor = np.float32(rng.choice([1 / 32, 1 / 16, 24, 48]))
    place = int(rng.integers(calibration.thresholds.size))
    thresholds, scales = calibration.thresholds.copy(), calibration.scales.copy()
    thresholds[place] *= factor
    scales[place] *= factor
    node.attributes.add(ir.AttrFloat32s("thresholds", thresholds.tolist()))
    node.attributes.add(ir.AttrFloat32s("scales", scales.tolist()))
    conversion.given[StageName.CALIBRATED] = model
    return StageName.CALIBRATED, str(node.name)


def wrong_shift(conversion: Conversion, rng: np.random.Generator) -> tuple[StageName, str]:
    model = conversion.sound[StageName.QUANTIZED].clone()
    node = choose(rng, [node for node in model.graph if "out_shift" in node.attributes])
    shifts = list(node.attributes["out_shift"].as_ints())
    changed = int(rng.integers(len(shifts)))
    shifts = [shift - 1 if index == changed or rng.random() < 0.5 else shift for index, shift in enumerate(shifts)]
    node.attributes.add(ir.AttrInt64s("out_shift", shifts))
    conversion.given[StageName.QUANTIZED] = model
    return StageName.QUANTIZED, str(node.name)


def bad_tile(conversion: Conversion, rng: np.random.Generator) -> tuple[StageName, str]:
    """A block of the packed weights of one node is not what it should be."""
    model = conversion.sound[StageName.QUANTIZED].clone()
    node = choose(rng, [node for node in model.graph if node.op_type == "HzSQuantizedConv"])
    name = str(node.name)
    array = constant_of(node.inputs[1]).copy()
    start = int(rng.integers(len(array)))
    array[start : start + 4] = rng.integers(-127, 128, array[start : start + 4].shape)
    set_constant(node, 1, array)
    conversion.given[StageName.BIN] = conversion.compiled(model)
    return StageName.BIN, name


def choose(rng: np.random.Generator, nodes: list[ir.Node]) -> ir.Node:
    return nodes[int(rng.integers(len(nodes)))]


def set_constant(node: ir.Node, index: int, array: NDArray) -> None:
    """Give ``node`` a constant of its own in place of input ``index``."""
    old = node.inputs[index]
    tensor = ir.tensor(array, name=f"{old.name}_faulty")
    value = ir.Value(name=tensor.name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
    node.graph.register_initializer(value)
    node.replace_input_with(index, value)


FAULTS = (wrong_mean, swapped_rgb, broken_pass, bad_threshold, wrong_shift, bad_tile)
SEEDS = range(35)
BY_DAY = range(3)
WHOLE = range(8)
"""Seeds of which all stages are compared. Of the others it is the faulty one with the one before it: those before them
are compared in :func:`test_sound_conversions_keep_all_bounds`, and what follows cannot be the first bad stage."""
MOST_VALUES = {wrong_mean: 1, swapped_rgb: 3, broken_pass: 1, bad_threshold: 1, wrong_shift: 1, bad_tile: 1}


ALL_SEEDS = pytest.mark.parametrize(
    "seeds", [pytest.param(BY_DAY, id="some"), pytest.param(SEEDS, id="all", marks=pytest.mark.nightly)]
)


@ALL_SEEDS
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_every_planted_fault_is_named_and_has_a_minimal_case(
    fault: Callable[[Conversion, np.random.Generator], tuple[StageName, str]],
    seeds: range,
    sound: Callable[[int], Conversion],
    tmp_path: Path,
) -> None:
    for seed in seeds:
        conversion = replace(sound(seed), folder=tmp_path, given={})
        stage, node = fault(conversion, np.random.default_rng(seed))
        stages = conversion.make() if seed in WHOLE else dict(list(conversion.make(stage).items())[-2:])
        material = conversion.material(stages)
        bad = bisect(material).first_bad
        assert bad is not None, f"seed {seed}: not found"
        assert (bad.after, bad.node) == (stage, node), f"seed {seed}: {bad}"
        if seed in WHOLE:
            case = minimise(bad, material)
            assert case.actual.size <= MOST_VALUES[fault], (seed, {n: a.shape for n, a in case.inputs.items()})
            assert_one_node_shows_the_fault(case, node)


def assert_one_node_shows_the_fault(case: MinimalCase, node: str) -> None:
    assert [item.name for item in case.model.graph] == [node]
    (actual,) = Session(case.model).run(case.inputs).values()
    np.testing.assert_array_equal(actual, case.actual)
    assert case.actual.shape == case.expected.shape
    assert not np.allclose(case.actual, case.expected, rtol=1e-5)


@ALL_SEEDS
def test_sound_conversions_keep_all_bounds(seeds: range, sound: Callable[[int], Conversion]) -> None:
    for seed in seeds:
        conversion = sound(seed)
        found = bisect(conversion.material(conversion.make()))
        assert found.first_bad is None
        assert [pair.after for pair in found.pairs] == STAGES[1:]


def test_set_of_faults_is_large_enough() -> None:
    assert len(FAULTS) * len(SEEDS) >= 200
