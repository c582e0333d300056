"""What a bisection takes besides the stages: bounds, a task metric, dumps of a board, a foreign model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import typer
import yaml
from numpy.typing import NDArray
from typer.testing import CliRunner

from engine.cli.lab.bisect import bisect as command
from engine.cli.vendor.hrt_model_exec import app as hrt_model_exec
from engine.compile import compile_model
from engine.debug.analysis.variants import FLOAT, switch
from engine.debug.bisection.bisect import Material, PairReport, bisect
from engine.debug.bisection.dumps import read_dumps
from engine.debug.bisection.minimise import minimise
from engine.debug.bisection.stages import Bounds, StageName, parse_bounds
from engine.debug.bisection.task import TaskMetric, top1
from engine.debug.bisection.tensors import integer_tensors
from engine.errors import InferenceError
from engine.frontend import preprocess
from engine.frontend.onnx import load_onnx
from engine.ir import constant_of, file_name, save_model
from engine.optimize import optimize
from engine.quantize import quantize
from tests.engine.debug.bisection.test_bisect import MARCH, Conversion, bad_tile, network, set_constant, wrong_shift
from tests.engine.debug.models import ZOO, random_feed, zoo
from tests.engine.debug.test_commands import config


@pytest.fixture(scope="module")
def conversion(tmp_path_factory: pytest.TempPathFactory) -> Conversion:
    return Conversion(2, tmp_path_factory.mktemp("conversion"))


@pytest.fixture(scope="module")
def stages(conversion: Conversion) -> dict[StageName, ir.Model]:
    return conversion.make()


@pytest.fixture(scope="module")
def lenet() -> tuple[ir.Model, ir.Model]:
    """Original and optimised: its Gemm nodes become convolutions with results of other names and shapes."""
    original = preprocess.insert(load_onnx(ZOO / "mnist_lenet.onnx"), [])
    return original, optimize(original, MARCH)


def bisected(lenet: tuple[ir.Model, ir.Model], faulty: ir.Model) -> Material:
    original, _ = lenet
    return Material({StageName.ORIGINAL: original, StageName.OPTIMIZED: faulty}, random_feed(original, 2))


def test_a_node_that_the_optimisation_renamed_is_named_not_what_rearranges_its_result(
    lenet: tuple[ir.Model, ir.Model],
) -> None:
    faulty = lenet[1].clone()
    gemms = [node for node in faulty.graph if node.op_type == "Conv" and "Gemm" in str(node.name)]
    assert gemms
    for node in gemms:
        faulty = lenet[1].clone()
        (copy,) = (other for other in faulty.graph if other.name == node.name)
        set_constant(copy, 2, constant_of(copy.inputs[2]) + 1)
        material = bisected(lenet, faulty)
        bad = bisect(material).first_bad
        assert bad is not None
        assert bad.node == node.name
        case = minimise(bad, material)
        assert [left.name for left in case.model.graph] == [node.name]
        assert not np.allclose(case.actual, case.expected, rtol=1e-5)


def transposed(op: str, between: str, perm: list[int]) -> ir.Model:
    """``op`` and a transposition, as a network."""
    text = (
        f'<ir_version: 8, opset_import: ["": 11]> g (float[1, 3, 3] x) => (float[1, 3, 3] y) '
        f"{{ {between} = {op} (x) y = Transpose <perm = {perm}> ({between}) }}"
    )
    model = ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text)))
    for node in model.graph:
        node.name = node.op_type
    return model


@pytest.mark.parametrize(
    ("op", "perm", "named"), [("LeakyRelu", [0, 2, 1], "LeakyRelu"), ("Relu", [0, 1, 2], "Transpose")]
)
def test_a_wrong_order_is_the_fault_of_what_rearranges(op: str, perm: list[int], named: str) -> None:
    right = transposed("Relu", "a", [0, 2, 1])
    stages = {StageName.ORIGINAL: right, StageName.OPTIMIZED: transposed(op, "b", perm)}
    values = np.random.default_rng(0).standard_normal((2, 3, 3)).astype(np.float32)
    bad = bisect(Material(stages, {"x": values})).first_bad
    assert bad is not None
    assert bad.node == named


@pytest.mark.parametrize(
    ("stage", "bounds"),
    [
        (StageName.CALIBRATED, Bounds(sqnr=200.0)),
        (StageName.CALIBRATED, Bounds(cosine=1.0)),
        (StageName.CALIBRATED, Bounds(max_abs=0.0)),
        (StageName.QUANTIZED, Bounds(sqnr=200.0)),
        (StageName.QUANTIZED, Bounds(requantisation=0.0)),
    ],
)
def test_bounds_of_the_outputs_name_a_node(
    stage: StageName, bounds: Bounds, conversion: Conversion, stages: dict[StageName, ir.Model]
) -> None:
    found = bisect(conversion.material(stages, bounds={stage: bounds}))
    bad = found.first_bad
    assert bad is not None
    assert bad.after is stage
    assert bad.node in {node.name for node in stages[StageName.CALIBRATED].graph}
    assert [pair.after for pair in found.pairs if pair.is_bad] == [stage]


def test_wider_bounds_let_a_fault_pass(tmp_path: Path) -> None:
    """Integers may then differ; floors of the outputs, which this fault breaks as well, are lowered by themselves."""
    conversion = Conversion(4, tmp_path, Conversion(4, tmp_path).make())
    wrong_shift(conversion, np.random.default_rng(4))
    stages = conversion.make()

    def first_bad(*texts: str) -> PairReport | None:
        return bisect(conversion.material(stages, bounds=parse_bounds(texts))).first_bad

    bad = first_bad()
    assert bad is not None
    assert bad.lsb is not None
    wide, tight = (f"quantized:lsb={units}" for units in (bad.lsb, bad.lsb - 1))
    floors = ["quantized:sqnr=-inf", "quantized:cosine=-1", "quantized:saturated=1", "quantized:dead=1"]
    assert first_bad(wide, *floors) is None
    assert first_bad(tight, *floors) is not None
    kept = first_bad(wide)
    assert kept is not None
    assert "allowed is 10" in str(kept.finding)


def test_task_metric_of_every_stage_and_its_bound() -> None:
    calibrated, feed = zoo("mnist_lenet")
    optimized = calibrated.clone()
    switch(optimized, FLOAT)
    stages = {StageName.OPTIMIZED: optimized, StageName.CALIBRATED: calibrated}
    stages[StageName.QUANTIZED] = quantize(calibrated, MARCH)
    labels = np.arange(len(feed["image"])) % 10
    task = TaskMetric("top1", top1, labels)
    pairs = bisect(Material(stages, feed, task=task)).pairs
    outputs = [
        integer_tensors(stages[StageName.QUANTIZED], feed)[str(stages[StageName.QUANTIZED].graph.outputs[0].name)]
    ]
    assert pairs[-1].metric == top1(outputs, labels)
    assert pairs[-1].metric_before == pairs[-2].metric
    falls = TaskMetric("falls", lambda outputs, _: float(-np.abs(outputs[0] - np.round(outputs[0], 6)).max()), labels)
    found = bisect(Material(stages, feed, task=falls, bounds={StageName.CALIBRATED: Bounds(metric=-1.0)})).first_bad
    assert found is not None
    assert found.after is StageName.CALIBRATED
    assert "metric falls" in str(found.finding)


def test_dumps_of_a_board_are_compared_with_the_simulator(
    conversion: Conversion, stages: dict[StageName, ir.Model], tmp_path: Path
) -> None:
    tensors = integer_tensors(stages[StageName.BIN], {"image": conversion.images})
    write_dumps(tmp_path / "right", stages[StageName.BIN], tensors, samples=2)
    dumps = read_dumps(tmp_path / "right", stages[StageName.BIN])
    assert {len(array) for array in dumps.values()} == {2}
    report = bisect(conversion.material(stages, dumps=dumps)).pairs[-1]
    assert (report.before, report.after, report.node, report.lsb) == (StageName.BIN, StageName.DUMPS, None, 0)

    names = [name for name, array in dumps.items() if array.dtype == np.int8]
    spoiled = {**dumps, names[3]: dumps[names[3]] + np.int8(1)}
    material = conversion.material(stages, dumps=spoiled)
    bad = bisect(material).first_bad
    assert bad is not None
    assert (bad.after, bad.tensor, bad.lsb) == (StageName.DUMPS, names[3], 255 if 127 in dumps[names[3]] else 1)
    case = minimise(bad, material)
    assert [node.name for node in case.model.graph] == [bad.node]
    assert not np.array_equal(case.actual, case.expected)


def test_dumps_that_do_not_fit_are_refused(stages: dict[StageName, ir.Model], tmp_path: Path) -> None:
    model = stages[StageName.BIN]
    with pytest.raises(InferenceError, match="no dump"):
        read_dumps(tmp_path, model)
    name = file_name(str(model.graph.outputs[0].name))
    (tmp_path / f"model_infer_output_0_{name}.bin").write_bytes(b"123")
    with pytest.raises(InferenceError, match="3 bytes"):
        read_dumps(tmp_path, model)
    (tmp_path / "1").mkdir()
    with pytest.raises(InferenceError, match="folders 0, 1"):
        read_dumps(tmp_path, model)


def test_hrt_model_exec_writes_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversion = Conversion(5, tmp_path)
    stages = conversion.make(StageName.QUANTIZED)
    file = tmp_path / "board.bin"
    compile_model(stages[StageName.QUANTIZED], MARCH).save(file)
    stages[StageName.BIN] = conversion.compiled(stages[StageName.QUANTIZED])
    (conversion.images[0] + 128).astype(np.uint8).transpose(1, 2, 0).tofile(tmp_path / "image.bin")
    (tmp_path / "dumps").mkdir()
    for form in ("bin", "txt"):
        monkeypatch.setattr("engine.cli.vendor.hrt_model_exec.DUMP_FOLDER", tmp_path / "dumps")
        options = ["--enable_dump", "true", "--dump_intermediate", "1", "--dump_format", form]
        done = CliRunner().invoke(
            hrt_model_exec, ["infer", "--model_file", str(file), "--input_file", str(tmp_path / "image.bin"), *options]
        )
        assert done.exit_code == 0, done.output
        dumps = read_dumps(tmp_path / "dumps", stages[StageName.BIN])
        assert len(dumps) > 5
        assert bisect(conversion.material(stages, dumps=dumps)).first_bad is None


def test_foreign_model_with_names_of_its_own(tmp_path: Path) -> None:
    conversion = Conversion(6, tmp_path, Conversion(6, tmp_path).make())
    bad_tile(conversion, np.random.default_rng(6))
    stages = conversion.make(StageName.QUANTIZED)
    foreign = conversion.given[StageName.BIN].clone()
    for node in foreign.graph:
        for value in node.outputs:
            value.name = f"other_{value.name}"
    found = bisect(conversion.material({**stages, StageName.FOREIGN: foreign}))
    assert found.first_bad is not None
    assert (found.first_bad.before, found.first_bad.after) == (StageName.QUANTIZED, StageName.FOREIGN)
    assert found.first_bad.tensor == f"other_{stages[StageName.QUANTIZED].graph.outputs[0].name}"


def test_command_takes_labels_dumps_bounds_and_a_foreign_model(tmp_path: Path) -> None:
    conversion = Conversion(1, tmp_path)
    onnx.save(network(1), tmp_path / "model.onnx")
    (tmp_path / "data" / "image").mkdir(parents=True)
    (tmp_path / "cal").mkdir()
    for index, array in enumerate(conversion.images):
        np.save(tmp_path / "data" / "image" / f"{index}.npy", array[None])
        (array + 128).tofile(tmp_path / "cal" / f"{index}.rgb")
    (tmp_path / "data" / "labels.csv").write_text("sample,label\n2,1\n1,5\n0,7\n")
    (tmp_path / "model.yaml").write_text(yaml.safe_dump(config(tmp_path, (0.0, 0.0, 0.0))))
    stages = conversion.make()
    save_model(stages[StageName.QUANTIZED], tmp_path / "foreign.onnx")
    write_dumps(
        tmp_path / "dumps",
        stages[StageName.BIN],
        integer_tensors(stages[StageName.BIN], {"image": conversion.images}),
        1,
    )
    app = typer.Typer()
    app.command()(command)
    files = {"--config": "model.yaml", "--data": "data", "--dumps": "dumps", "--foreign": "foreign.onnx"}
    arguments = [
        str(tmp_path / "model.onnx"),
        *(part for key, name in files.items() for part in (key, str(tmp_path / name))),
    ]
    done = CliRunner().invoke(app, [*arguments, "--bound", "calibrated:sqnr=300", "--json"])
    assert done.exit_code == 1, done.output
    found = json.loads(done.stdout)
    assert [pair["after"] for pair in found["pairs"]] == [
        "optimized",
        "calibrated",
        "quantized",
        "bin",
        "dumps",
        "foreign",
    ]
    assert found["first_bad"]["stage"] == "calibrated"
    # Dumps and foreign model come from a conversion with another mean.
    assert [pair["bad"] for pair in found["pairs"]] == [False, True, False, False, True, True]
    assert all(0 <= pair["metric"] <= 1 for pair in found["pairs"])
    table = CliRunner().invoke(app, arguments)
    assert "metric before" in table.stdout.splitlines()[0]
    assert CliRunner().invoke(app, [*arguments, "--bound", "bin:speed=1"]).exit_code != 0


def write_dumps(folder: Path, model: ir.Model, tensors: dict[str, NDArray], samples: int) -> None:
    """As ``hrt_model_exec infer --enable_dump true --dump_intermediate 1`` leaves them."""
    outputs = [value.name for value in model.graph.outputs]
    for index in range(samples):
        (folder / str(index)).mkdir(parents=True)
        for name, array in tensors.items():
            sample = array[index * (len(array) // 3) : (index + 1) * (len(array) // 3)]
            prefix = f"model_infer_output_{outputs.index(name)}_" if name in outputs else ""
            (folder / str(index) / f"{prefix}{file_name(name)}.bin").write_bytes(sample.tobytes())
