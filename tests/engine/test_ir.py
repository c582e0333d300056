"""Files, constants, calibration nodes and marks of models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.errors import ModelError, OutputError
from engine.ir import (
    QMAX,
    Calibration,
    attribute,
    before_calibration,
    calibration_nodes,
    calibration_of,
    check_tensors,
    constant_of,
    decline,
    file_name,
    is_declined,
    load_model,
    mark,
    node_by_name,
    read_calibration,
    save_model,
    shape_of,
    to_bytes,
    typed_attribute,
    write_atomically,
    written_thresholds,
)
from tests.engine.calibrate.models import add_calibration, residual
from tests.engine.frontend.networks import convolution, network, saved


def test_a_saved_model_is_read_again_bit_by_bit(tmp_path: Path) -> None:
    model = residual()
    assert to_bytes(load_model(save_model(model, tmp_path / "m.onnx"))) == to_bytes(model)


def test_a_file_that_is_not_there_or_cannot_be_is_named(tmp_path: Path) -> None:
    for name in ("none.onnx", "no\0name"):
        with pytest.raises(ModelError, match="no such model file"):
            load_model(tmp_path / name)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_bytes(b"this is not a protocol buffer")
    with pytest.raises(ModelError, match=r"text.onnx: Error parsing message with type 'onnx.ModelProto'") as told:
        load_model(tmp_path / "text.onnx")
    assert str(told.value).count("Error parsing") == 1
    assert "copy the file again, or write it with torch.onnx.export" in str(told.value)
    (tmp_path / "empty.onnx").write_bytes(b"")
    with pytest.raises(ModelError, match="the file is empty"):
        load_model(tmp_path / "empty.onnx")
    onnx.save(onnx.ModelProto(ir_version=8), tmp_path / "bare.onnx")
    with pytest.raises(ModelError, match="it has no graph outputs"):
        load_model(tmp_path / "bare.onnx")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "a pointer of Git LFS.*git lfs pull"),
        (b"\n<!DOCTYPE html><html>", "a web page"),
        (b"\xef\xbb\xbf<HTML><head>", "a web page"),
        (b"PK\x03\x04" + b"x" * 100, "a zip archive.*torch.onnx.export"),
        (b"\x89HDF\r\n\x1a\n", "a Keras model; convert it with tf2onnx"),
    ],
)
def test_what_has_the_name_of_a_model_is_recognised(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(ModelError, match=rf"net.onnx: Error parsing message with type 'onnx.ModelProto' \({said}"):
        load_model(tmp_path / "net.onnx")


def _with_data_at(folder: Path, location: str) -> Path:
    model = convolution()
    weight = model.graph.initializer[0]
    (folder / "weights.bin").write_bytes(weight.raw_data)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    path = folder / "model" / "m.onnx"
    path.parent.mkdir()
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("suffix", "text"), [(".bin", "hrt_model_exec and hb_model_info"), (".pt", "torch.onnx.export")]
)
def test_files_of_other_tools_are_called_what_they_are(suffix: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / f"net{suffix}"
    path.write_bytes(b"\x03\x02 no model")
    with pytest.raises(ModelError) as told:
        load_model(path)
    assert text in str(told.value)
    assert "Wire format" not in str(told.value)


def test_data_outside_the_models_folder_are_refused(tmp_path: Path) -> None:
    path = _with_data_at(tmp_path, "../weights.bin")
    with pytest.raises(ModelError, match=r"tensor 'w': its data '../weights.bin' lie outside the model's folder"):
        load_model(path)


def test_data_that_are_missing_are_named_with_the_folder_where_they_belong(tmp_path: Path) -> None:
    path = _with_data_at(tmp_path, "w.bin")
    with pytest.raises(ModelError, match=rf"file 'w.bin', which is missing: copy it into {path.parent}/"):
        load_model(path)
    (tmp_path / "weights.bin").rename(path.parent / "w.bin")
    assert len(load_model(path).graph) == 1


@pytest.mark.filterwarnings("error")
def test_unknown_entries_of_external_data_are_told_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = _with_data_at(tmp_path, "w.bin")
    (tmp_path / "weights.bin").rename(path.parent / "w.bin")
    proto = onnx.load(path, load_external_data=False)
    for key in ("prepacked_0", "legth"):
        proto.graph.initializer[0].external_data.add(key=key, value="1")
    path.write_bytes(proto.SerializeToString())
    assert constant_of(load_model(path).graph.initializers["w"]) is not None
    (record,) = caplog.records
    assert "entries of external data that are not known: 'legth', 'prepacked_0'" in record.getMessage()


def test_a_link_to_data_outside_the_models_folder_is_followed_and_refused(tmp_path: Path) -> None:
    path = _with_data_at(tmp_path, "w.bin")
    (path.parent / "w.bin").symlink_to(tmp_path / "weights.bin")
    with pytest.raises(ModelError, match="lie outside"):
        load_model(path)
    (path.parent / "w.bin").unlink()
    (path.parent / "w.bin").write_bytes((tmp_path / "weights.bin").read_bytes())
    assert len(load_model(path).graph) == 1


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    model = convolution(name="XYZXYZ")
    path = saved(model, tmp_path)
    path.write_bytes(path.read_bytes().replace(b"XYZXYZ", b"XY\xff\xfeYZ"))
    with pytest.raises(ModelError, match=r"UTF-8|Error parsing"):
        load_model(path)


def test_a_tensor_whose_data_do_not_fit_its_shape_is_named() -> None:
    tensor = numpy_helper.from_array(np.zeros(3, np.float32), "short")
    tensor.dims[0] = 4
    with pytest.raises(ValueError, match="tensor 'short': its data do not fit"):
        check_tensors(
            network([helper.make_node("Relu", ["x"], ["y"])], {"x": (1,)}, ["y"], {}).graph.__class__(
                initializer=[tensor]
            )
        )


def test_a_file_name_keeps_letters_digits_and_three_marks() -> None:
    assert file_name("conv/1:weight-a_b.c é") == "conv_1_weight-a_b.c_é"


def test_a_file_is_written_under_another_name_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a" / "b.txt"
    assert write_atomically(path, b"one") == path
    seen: list[str] = []
    replace = Path.replace

    def look(self: Path, target: Path) -> Path:
        seen.extend(sorted(file.name for file in path.parent.iterdir()))
        assert path.read_bytes() == b"one"
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", look)
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert [name.startswith(".b.txt.") for name in seen] == [True, False]


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=r"folder: cannot be written: "):
        write_atomically(tmp_path / "folder", b"data")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="cannot be written"):
        write_atomically(tmp_path / "file" / "below", b"data")

    def interrupted(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "new", b"data")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_constants_are_initializers_and_constant_nodes() -> None:
    node = helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.float32(2)))
    nodes = [node, helper.make_node("Mul", ["x", "two"], ["t"]), helper.make_node("Add", ["t", "one"], ["y"])]
    model = ir.from_proto(network(nodes, {"x": (1,)}, ["y"], {"one": np.ones(1, np.float32)}))
    mul, add = (model.graph[1], model.graph[2])
    assert [constant_of(value) for value in (mul.inputs[1], add.inputs[1])] == [np.float32(2), np.float32(1)]
    assert constant_of(mul.inputs[0]) is None
    assert constant_of(None) is None


def test_attributes() -> None:
    node = ir.node("Op", [], {"pads": [1, 2], "name": "a"})
    assert attribute(node, "pads") == (1, 2)
    assert attribute(node, "axis", 3) == 3
    assert attribute(node, "axis") is None


@pytest.mark.parametrize("value", [3, 0.5, "text", [1, 2], [0.5, 1.5], ["a", "b"], (1, 2), []])
def test_typed_attributes_are_what_the_library_infers(value: object) -> None:
    mine, theirs = typed_attribute("a", value), ir.convenience.convert_attribute("a", value)
    assert (mine.type, list(mine.value) if isinstance(value, list | tuple) else mine.value) == (
        theirs.type,
        list(theirs.value) if isinstance(value, list | tuple) else theirs.value,
    )


def test_largest_magnitudes() -> None:
    assert QMAX == {"int8": 127, "int16": 32767, "uint8": 255}


@pytest.mark.parametrize(("qtype", "bits"), [("int8", 8), ("uint8", 8), ("int16", 16)])
def test_width_in_bits(qtype: str, bits: int) -> None:
    empty = np.empty(0, np.float32)
    assert Calibration(empty, empty, qtype).bits == bits


def test_a_threshold_that_all_channels_share_is_one() -> None:
    """Of an activation; a weight keeps one per channel, equal or not."""
    model = residual()
    shared = add_calibration(model, "r0", thresholds=[2.0] * 4, scales=[0.5] * 4)
    apart = add_calibration(model, "c0", thresholds=[2.0, 1.0, 2.0, 2.0], scales=[0.5, 0.25, 0.5, 0.5])
    weight = add_calibration(model, "w1", thresholds=[2.0] * 4, scales=[0.5] * 4)
    assert [read_calibration(node).scales.tolist() for node in (shared, apart, weight)] == [
        [0.5],
        [0.5, 0.25, 0.5, 0.5],
        [0.5] * 4,
    ]
    assert written_thresholds(shared).tolist() == [2.0] * 4


def test_what_a_calibration_node_says() -> None:
    model = residual()
    add_calibration(model, "r0", thresholds=[0.5], scales=[0.25], qtype="int16", switch="OFF")
    node = add_calibration(model, "w1", thresholds=[1.0, 2.0], scales=[3.0, 4.0])
    assert [made.name for made in calibration_nodes(model)] == ["w1_HzCalibration", "r0_HzCalibration"]
    conv = node_by_name(model, ["conv1", "another"])["conv1"]
    activation, weight = (calibration_of(value) for value in conv.inputs[:2])
    assert activation is not None
    assert weight is not None
    assert (activation.qtype, activation.switch, activation.axis, activation.group) == ("int16", "OFF", 1, 1)
    assert (weight.qtype, weight.switch, weight.axis, weight.group) == ("int8", "ON", 0, 1)
    np.testing.assert_array_equal(weight.thresholds, np.asarray([1, 2], np.float32), strict=True)
    np.testing.assert_array_equal(weight.scales, np.asarray([3, 4], np.float32), strict=True)
    assert [before_calibration(value).name for value in conv.inputs[:2]] == ["r0", "w1"]
    source = node.inputs[0]
    assert before_calibration(source) is source
    assert calibration_of(source) is None
    assert calibration_of(None) is None


def test_a_calibration_of_another_domain_is_none() -> None:
    model = residual()
    node = add_calibration(model, "r0")
    node.domain = "another"
    assert list(calibration_nodes(model)) == []


def test_only_static_shapes_are_given() -> None:
    assert shape_of(ir.val("a", ir.DataType.FLOAT, (1, 2))) == (1, 2)
    for shape in (None, (1, "n")):
        with pytest.raises(ModelError, match="tensor a: its shape must be known and static"):
            shape_of(ir.val("a", ir.DataType.FLOAT, shape))


def test_marks_are_set_and_removed() -> None:
    node = ir.node("Op", [])
    mark(node, "hz.on", "CPU")
    assert node.metadata_props["hz.on"] == "CPU"
    mark(node, "hz.on", None)
    mark(node, "hz.on", None)
    assert "hz.on" not in node.metadata_props


def test_equal_models_have_equal_bytes() -> None:
    first, second = residual(), residual()
    for key in "ba":
        first.metadata_props[key] = key
    for key in "ab":
        second.metadata_props[key] = key
    assert to_bytes(first) == to_bytes(first.clone())
    assert onnx.load_from_string(to_bytes(second)).graph == onnx.load_from_string(to_bytes(first)).graph


def test_a_rule_is_declined_by_name() -> None:
    (node, *_) = residual().graph
    assert not is_declined(node, "a.b")
    for rule in ("a.b", "a.c", "a.b"):
        decline(node, rule)
    assert [is_declined(node, rule) for rule in ("a.b", "a.c", "a", "")] == [True, True, False, False]
