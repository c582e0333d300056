"""A ``.bin`` holds the quantised model, bit for bit, and hostile files end in ContainerError."""

from __future__ import annotations

import json
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.chips import load_chip
from engine.chips.latency import load_latency
from engine.compile.compiler import CompileOptions, check_options, compile_model, from_bytes, load_bin, memory_of
from engine.compile.container import ContainerReader, Section, SectionKind, encode
from engine.compile.partition import CPU_OPS, device_of, is_layout_change
from engine.errors import ConfigError, ContainerError, ModelError, PtqlabError, UnsupportedError
from engine.ir import load_model
from engine.simulate import Session
from engine.terms import CompileMode, Device, InputSource, OptimizeLevel
from tests.golden_cases import BUNDLED, GoldenCase, conversion_cases

CASES = conversion_cases(BUNDLED)
RESIDUAL = BUNDLED / "conversions" / "res.quant.onnx"
MARCH_BY_PREFIX = {"b2": "bernoulli2", "by": "bayes", "bybig2": "bayes"}


def march_of(case: GoldenCase) -> str:
    return MARCH_BY_PREFIX.get(str(case).split("_")[0], "bayes-e")


def census(model: ir.Model) -> tuple[dict[str, Any], dict[str, Any]]:
    """Nodes with attributes, and constants that nodes use, by name."""
    nodes = {
        node.name: (
            node.domain,
            node.op_type,
            [value.name if value else "" for value in node.inputs],
            [value.name for value in node.outputs],
            {key: (attribute.type, tuple(np.ravel(attribute.value))) for key, attribute in node.attributes.items()},
        )
        for node in model.graph
    }
    used = {value.name for node in model.graph for value in node.inputs if value is not None}
    arrays = {name: value.const_value.numpy() for name, value in model.graph.initializers.items() if name in used}
    return nodes, {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}


def assert_round_trip(case: GoldenCase) -> None:
    model = load_model(case.model)
    compiled = compile_model(model, march_of(case))
    data = compiled.to_bytes()
    again = from_bytes(data)
    assert census(again.model) == census(model)
    assert again.schedules == compiled.schedules
    assert again.to_bytes() == data
    assert_running_order(again.segments, again.model)


def assert_running_order(segments: Iterable[Any], model: ir.Model) -> None:
    ready = {value.name for value in model.graph.inputs} | set(model.graph.initializers)
    for segment in segments:
        for node in segment.nodes:
            assert all(value is None or value.name in ready for value in node.inputs)
            ready.update(value.name for value in node.outputs)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_models_round_trip(case: GoldenCase) -> None:
    assert_round_trip(case)


@pytest.mark.reference
def test_all_reference_models_round_trip(reference_dir: Path) -> None:
    cases = conversion_cases(reference_dir / "golden")
    assert len(cases) >= 100
    for case in cases:
        assert_round_trip(case)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bin_executes_like_the_quantized_model(case: GoldenCase, tmp_path: Path) -> None:
    path = compile_model(load_model(case.model), march_of(case)).save(tmp_path / "model.bin")
    session = Session(path)
    for feed, expected in case.samples:
        outputs = session.run(feed)
        assert outputs.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(outputs[name], array)


@pytest.mark.nightly
@pytest.mark.reference
def test_every_reference_bin_executes_like_its_quantized_model(reference_dir: Path, tmp_path: Path) -> None:
    for case in conversion_cases(reference_dir / "golden"):
        path = compile_model(load_model(case.model), march_of(case)).save(tmp_path / "model.bin")
        quantized, binary = Session(case.model), Session(path)
        feed, _ = case.samples[0]
        for (name, left), right in zip(quantized.run(feed).items(), binary.run(feed).values(), strict=True):
            np.testing.assert_array_equal(left, right, err_msg=f"{case} {name}")


def test_saving_is_deterministic_and_complete(tmp_path: Path) -> None:
    options = CompileOptions(optimize_level=OptimizeLevel.O3, debug=True, jobs=4)
    first = compile_model(load_model(RESIDUAL), "bayes-e", options, "net").save(tmp_path / "a.bin").read_bytes()
    second = compile_model(load_model(RESIDUAL), "bayes-e", options, "net").save(tmp_path / "b.bin").read_bytes()
    assert first == second
    again = load_bin(tmp_path / "a.bin")
    assert (again.name, again.march, again.options.optimize_level) == ("net", "bayes-e", OptimizeLevel.O3)
    assert again.schedules[0].name == "net_subgraph_0"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bin", "b.bin"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_o3_has_the_plan_of_o2_and_keeps_nothing_between_compilations(case: GoldenCase) -> None:
    """reference/latency.md: O2 = O3 in nearly every row."""
    at = {
        level: compile_model(load_model(case.model), march_of(case), CompileOptions(optimize_level=level))
        for level in (OptimizeLevel.O2, OptimizeLevel.O3)
    }
    assert at[OptimizeLevel.O3].schedules == at[OptimizeLevel.O2].schedules


def test_weights_are_packed_to_the_march_blocks() -> None:
    conv = next(layer for layer in compile_model(load_model(RESIDUAL), "bayes-e").schedules[0].layers)
    assert conv.weight_bytes == 16 * 8
    assert conv.macs == 16 * 16 * 8 * 8


@pytest.mark.parametrize("case", CASES, ids=str)
def test_subgraphs_are_connected_regions_of_bpu_nodes(case: GoldenCase) -> None:
    march = load_chip(march_of(case))
    compiled = compile_model(load_model(case.model), march_of(case))
    assert sum(len(segment.nodes) for segment in compiled.segments) == len(list(compiled.model.graph))
    for segment in compiled.segments:
        if segment.device is Device.BPU:
            assert all(node.op_type not in CPU_OPS for node in segment.nodes)
            assert not all(is_layout_change(node) for node in segment.nodes)
        else:
            assert all(device_of(node, march) is Device.CPU or is_layout_change(node) for node in segment.nodes)


def test_float_operators_of_the_horizon_domain_run_on_the_cpu() -> None:
    """``HzSwish`` that placement left on the CPU is a float operator, whatever its domain."""
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1, 2]))
    y = ir.Value(name="y", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1, 2]))
    assert device_of(ir.Node("horizon", "HzSwish", [x], outputs=[y]), load_chip("bayes-e")) is Device.CPU


OPTIONS_THAT_DO_NOT_FIT: dict[str, tuple[CompileOptions, str, type[PtqlabError], str]] = {
    "cores": (CompileOptions(core_num=2), "bayes-e", UnsupportedError, "supports 1 per frame"),
    "unknown input": (CompileOptions(input_source={"z": InputSource.DDR}), "bayes", ConfigError, r"'z'.*\['x'\]"),
}


@pytest.mark.parametrize(
    ("options", "march", "error", "message"), OPTIONS_THAT_DO_NOT_FIT.values(), ids=OPTIONS_THAT_DO_NOT_FIT.keys()
)
def test_options_that_do_not_fit_are_named(
    options: CompileOptions, march: str, error: type[PtqlabError], message: str
) -> None:
    with pytest.raises(error, match=message):
        compile_model(load_model(RESIDUAL), march, options)


def test_float_models_are_refused() -> None:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1, 2]))
    y = ir.Value(name="y", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1, 2]))
    graph = ir.Graph([x], [y], nodes=[ir.Node("", "Relu", [x], outputs=[y])], name="g", opset_imports={"": 11})
    with pytest.raises(ModelError, match="no node runs on the BPU"):
        compile_model(ir.Model(graph, ir_version=6), "bayes-e")


def test_unknown_march_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"nash.*bayes-e"):
        compile_model(load_model(RESIDUAL), "nash")


def test_missing_file_is_a_container_error(tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match="cannot be read"):
        load_bin(tmp_path / "none.bin")


BINARY = compile_model(load_model(RESIDUAL), "bayes-e").to_bytes()


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damaged_files_end_in_container_errors(data: st.DataObject) -> None:
    blob = bytearray(BINARY)
    for _ in range(data.draw(st.integers(1, 5))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    if bytes(blob) != BINARY:
        with pytest.raises(ContainerError):
            from_bytes(bytes(blob))


JSON_KINDS = (SectionKind.METADATA, SectionKind.GRAPH, SectionKind.SCHEDULE)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.just([])


@pytest.mark.nightly
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_crafted_files_with_good_digests_end_in_container_errors_or_load(data: st.DataObject) -> None:
    """One value of one record is replaced: the file either still is a valid model or is refused, never a crash."""
    sections = crafted(data, data.draw(st.sampled_from(JSON_KINDS)))
    try:
        from_bytes(encode(sections))
    except ContainerError:
        return


def crafted(data: st.DataObject, kind: SectionKind) -> list[Section]:
    sections = []
    for section in sections_of(BINARY):
        content = section.data
        if section.kind is kind:
            tree = json.loads(content)
            replace_one(data, tree)
            content = json.dumps(tree).encode()
        sections.append(Section(section.kind, section.index, content))
    return sections


def replace_one(data: st.DataObject, tree: Any) -> None:
    """Walk down to a random place and put something else there."""
    while True:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(tree[key], dict | list) and tree[key] and data.draw(st.integers(0, 4)):
            tree = tree[key]
            continue
        tree[key] = data.draw(LEAVES)
        return


def sections_of(blob: bytes) -> list[Section]:
    reader = ContainerReader(BytesIO(blob), "sample")
    keys = [(SectionKind(entry.kind), entry.index) for entry in reader.entries]
    return [Section(kind, index, reader.read(kind, index)) for kind, index in keys]


@pytest.mark.parametrize("kind", [kind for kind in SectionKind if kind is not SectionKind.MODEL])
def test_missing_sections_are_container_errors(kind: SectionKind) -> None:
    sections = [section for section in sections_of(BINARY) if section.kind is not kind]
    with pytest.raises(ContainerError):
        from_bytes(encode(sections))


def test_garbage_instead_of_a_cpu_model_is_a_container_error() -> None:
    sections = [
        Section(s.kind, s.index, b"\xff garbage") if s.kind is SectionKind.CPU_MODEL else s for s in sections_of(BINARY)
    ]
    with pytest.raises(ContainerError, match="not an ONNX model"):
        from_bytes(encode(sections))


def test_names_in_a_cpu_model_are_text() -> None:
    sections = [
        Section(s.kind, s.index, s.data.replace(b"Dequantize", b"Dequanti\xff\xfe", 1))
        if s.kind is SectionKind.CPU_MODEL
        else s
        for s in sections_of(BINARY)
    ]
    with pytest.raises(ContainerError, match=r"CPU segment .*: .*UTF-8|not an ONNX model"):
        from_bytes(encode(sections))


@pytest.mark.parametrize(
    ("level", "groups", "maps", "relays"),
    [
        (OptimizeLevel.O0, 0, 0, (False, False)),
        (OptimizeLevel.O1, 0, "unfused_bytes", (False, True)),
        (OptimizeLevel.O2, "group_bytes", "map_bytes", (False, False)),
        (OptimizeLevel.O3, "group_bytes", "map_bytes", (False, False)),
    ],
)
def test_memory_of_a_level(level: OptimizeLevel, groups: Any, maps: Any, relays: tuple[bool, bool]) -> None:
    latency = load_latency("bayes-e")
    memory = memory_of(latency, CompileOptions(optimize_level=level))
    sizes = [getattr(latency, size) if isinstance(size, str) else size for size in (groups, maps)]
    assert [memory.group_bytes, memory.map_bytes] == sizes
    assert (memory.relay_inputs, bool(memory.relay_outputs)) == relays
    unknown = load_latency("bernoulli2").model_copy(update={"unfused_layers": {}})
    other = memory_of(unknown, CompileOptions(optimize_level=level))
    assert other.relay_inputs == (level is OptimizeLevel.O0)


def test_bandwidth_leaves_all_memory_to_maps_and_cores_share_none() -> None:
    latency = load_latency("bayes-e")
    thrifty = memory_of(latency, CompileOptions(compile_mode=CompileMode.BANDWIDTH))
    assert (thrifty.map_bytes, thrifty.weights_on_chip, thrifty.joins_apart) == (latency.group_bytes, False, False)
    b2 = load_latency("bernoulli2")
    shared = memory_of(b2, CompileOptions(core_num=2))
    assert (shared.map_bytes, shared.weights_on_chip, shared.skips_whole) == (0, True, False)
    assert memory_of(b2, CompileOptions()).skips_whole


@pytest.mark.parametrize(("height", "refused"), [(143, False), (144, True)])
def test_the_resizer_takes_fewer_than_18432_pixels(height: int, refused: bool) -> None:
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.INT8), shape=ir.Shape((1, height, 128, 3)))
    model = ir.Model(ir.Graph([x], [], nodes=[], name="g"), ir_version=8)
    options = CompileOptions(input_source={"x": InputSource.RESIZER})
    if refused:
        with pytest.raises(ConfigError, match="input_source of 'x' is resizer: height x width must be below 18432"):
            check_options(options, model, "bayes-e")
    else:
        check_options(options, model, "bayes-e")


METADATA = {"name": "m", "march": "bayes-e", "options": {}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no JSON", "META: invalid Metadata at its start"),
        (b"\xff\xfe", "META: invalid Metadata"),
        (b"[]", "META: invalid Metadata at its start"),
        (b"3", "META: invalid Metadata at its start"),
        (b"[" * 100_000, "META: invalid Metadata"),
        (json.dumps({**METADATA, "name": 5}).encode(), "META: invalid Metadata at name"),
        (json.dumps({**METADATA, "name": "n" * 100_000}).encode(), "META: invalid Metadata at name"),
        (json.dumps({**METADATA, "march": ["bayes"]}).encode(), "META: invalid Metadata at march"),
        (json.dumps({**METADATA, "march": "bernoulli9"}).encode(), "META: march 'bernoulli9'"),
        (json.dumps({**METADATA, "options": []}).encode(), "META: invalid Metadata at options"),
        (json.dumps({**METADATA, "parameters": {"a": 1}}).encode(), "META: invalid Metadata at parameters.a"),
        (json.dumps({**METADATA, "removed": [{}]}).encode(), "META: invalid Metadata at removed.0"),
    ],
)
def test_metadata_of_another_type(content: bytes, message: str) -> None:
    with pytest.raises(ContainerError, match=message):
        from_bytes(with_section(SectionKind.METADATA, content), "m.bin")


def with_section(kind: SectionKind, content: bytes) -> bytes:
    """A container, its section ``kind`` replaced, behind digests that are right."""
    return encode(
        [Section(item.kind, item.index, content if item.kind is kind else item.data) for item in sections_of(BINARY)]
    )


@pytest.mark.parametrize(
    ("shape", "message"), [([1, 0, 8, 8], "has no elements"), ([1 << 20] * 2, "more than 21474836")]
)
def test_inputs_of_no_size_or_too_large_a_one(shape: list[int], message: str) -> None:
    content = json.loads(ContainerReader(BytesIO(BINARY), "m.bin").read(SectionKind.GRAPH))
    content["inputs"][0]["shape"] = shape
    with pytest.raises(ContainerError, match=message):
        from_bytes(with_section(SectionKind.GRAPH, json.dumps(content).encode()), "m.bin")
