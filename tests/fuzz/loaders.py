"""The readers of foreign files, each with valid files to begin from and words to splice in."""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import yaml

from engine.calibrate import open_folders
from engine.config import Config, InputSpec, load_config
from engine.frontend import caffe, onnx
from engine.frontend.caffe.schema import message_class
from engine.simulate.loaders import open_model
from tests.engine.frontend.networks import convolution, network
from tests.fuzz.loader import Loader
from tests.fuzz.more_loaders import MORE, NUMBERS

PROTOTXT = """name: "net"
input: "data" input_dim: 1 input_dim: 2 input_dim: 6 input_dim: 6
layer { name: "c" type: "Convolution" bottom: "data" top: "c"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 dilation: 1 group: 1 } }
layer { name: "b" type: "BatchNorm" bottom: "c" top: "c" batch_norm_param { eps: 1e-5 } }
layer { name: "s" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true axis: 1 } }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" relu_param { negative_slope: 0.1 } }
layer { name: "p" type: "Pooling" bottom: "c" top: "p" pooling_param { pool: AVE kernel_size: 2 stride: 2 pad: 1 } }
layer { name: "sl" type: "Slice" bottom: "p" top: "u" top: "v" slice_param { slice_point: 2 axis: 1 } }
layer { name: "e" type: "Eltwise" bottom: "u" bottom: "v" top: "e" eltwise_param { coeff: 1 coeff: 2 } }
layer { name: "i" type: "Interp" bottom: "e" top: "i" interp_param { zoom_factor: 2 } }
layer { name: "cr" type: "Crop" bottom: "i" bottom: "e" top: "cr" crop_param { axis: 2 offset: 1 } }
layer { name: "re" type: "Reshape" bottom: "cr" top: "re" reshape_param { shape { dim: 0 dim: -1 } axis: 0 } }
layer { name: "ip" type: "InnerProduct" bottom: "re" top: "ip" inner_product_param { num_output: 3 } }
layer { name: "a" type: "ArgMax" bottom: "ip" top: "a" argmax_param { top_k: 2 axis: 1 } }
layer { name: "l" type: "LRN" bottom: "p" top: "l" lrn_param { local_size: 3 norm_region: WITHIN_CHANNEL } }
layer { name: "pe" type: "Permute" bottom: "l" top: "pe" permute_param { order: 0 order: 2 } }
layer { name: "up" type: "Upsample" bottom: "l" top: "up" upsample_param { scale: 2 } }
"""
_BLOBS = {"c": [(4, 2, 3, 3), (4,)], "b": [(4,), (4,), (1,)], "s": [(4,), (4,)], "ip": [(3, 8), (3,)]}

_YAML = {
    "model_parameters": {
        "onnx_model": "m.onnx",
        "march": "bayes-e",
        "output_model_file_prefix": "m",
        "node_info": {"n": {"ON": "BPU", "InputType0": "int16"}},
    },
    "input_parameters": {
        "input_name": "a; b",
        "input_type_train": "rgb; featuremap",
        "input_layout_train": "NCHW; NCHW",
        "input_shape": "1x3x32x32; 1x8",
        "norm_type": "data_mean_and_scale; no_preprocess",
        "mean_value": "1 2 3; None",
        "scale_value": "0.5; None",
        "input_type_rt": "nv12; featuremap",
    },
    "calibration_parameters": {"cal_data_dir": "a;b", "calibration_type": "max", "max_percentile": 0.99},
    "compiler_parameters": {"optimize_level": "O3", "input_source": {"a": "pyramid"}, "max_time_per_fc": 1000},
}


_COMPILE_YAML = {
    "model_parameters": {"onnx_model": "m.onnx", "march": "nash-e", "output_model_file_prefix": "m"},
    "input_parameters": {
        "input_type_train": "rgb; featuremap",
        "input_type_rt": "nv12; featuremap",
        "mean_value": "1 2 3; None",
        "std_value": "58.395; None",
    },
    "calibration_parameters": {
        "cal_data_dir": "a;b",
        "quant_config": {
            "model_config": {"activation": {"calibration_type": "max", "asymmetric": True}, "weight": {}},
            "op_config": {"Conv": {"qtype": "int16"}},
            "node_config": {"n": {"qtype": "int16"}},
        },
    },
    "compiler_parameters": {"optimize_level": "O2"},
}


def caffe_weights() -> bytes:
    """A ``.caffemodel`` for :data:`PROTOTXT`."""
    rng = np.random.default_rng(0)
    weights = message_class("NetParameter")(name="net")
    for name, shapes in _BLOBS.items():
        layer = weights.layer.add(name=name)
        for shape in shapes:
            blob = layer.blobs.add()
            blob.shape.dim.extend(shape)
            blob.data.extend(rng.uniform(0.5, 1, int(np.prod(shape))).tolist())
    return bytes(weights.SerializeToString())


def _onnx(content: bytes, folder: Path) -> object:
    path = folder / "m.onnx"
    path.write_bytes(content)
    return onnx.load_onnx(path)


def _prototxt(content: bytes, folder: Path) -> object:
    (folder / "net.prototxt").write_bytes(content)
    (folder / "net.caffemodel").write_bytes(caffe_weights())
    return caffe.load_caffe(folder / "net.prototxt", folder / "net.caffemodel")


def _caffemodel(content: bytes, folder: Path) -> object:
    (folder / "net.prototxt").write_text(PROTOTXT)
    (folder / "net.caffemodel").write_bytes(content)
    return caffe.load_caffe(folder / "net.prototxt", folder / "net.caffemodel")


def _yaml(content: bytes, folder: Path) -> Config:
    path = folder / "c.yaml"
    path.write_bytes(content)
    config = load_config(path)
    config.input_specs(config.input_parameters.input_name or ["a", "b"])
    return config


def _compile_yaml(content: bytes, folder: Path) -> Config:
    path = folder / "c.yaml"
    path.write_bytes(content)
    return load_config(path, newer_dialect=True)


def _calibration(content: bytes, folder: Path, name: str, kinds: Sequence[str]) -> object:
    (folder / "m.onnx").write_bytes(_seed_models()[0])
    (folder / "data").mkdir()
    (folder / "data" / name).write_bytes(content)
    source = onnx.load_onnx(folder / "m.onnx")
    data = open_folders(source, [InputSpec(name="x")], [folder / "data"], kinds)
    return data.read(0, 1)


def _seed_models() -> tuple[bytes, ...]:
    import onnx as onnx_package
    from onnx import helper

    reshape = network(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Reshape", ["x", "s"], ["r"]),
            helper.make_node("Split", ["r", "parts"], ["a", "b"], axis=1),
            helper.make_node("Add", ["a", "b"], ["y"]),
        ],
        {"x": (1, 4, 8, 8)},
        ["y"],
        {"parts": np.array([2, 2])},
    )
    external = convolution()
    tensor = external.graph.initializer[0]
    tensor.data_location = onnx_package.TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    for key, value in (("location", "m.onnx"), ("offset", "0"), ("length", "432")):
        tensor.external_data.add(key=key, value=value)
    return tuple(model.SerializeToString() for model in (convolution(), reshape, external))


def _arrays() -> tuple[bytes, ...]:
    files = []
    for array in (np.zeros((3, 8, 8), np.float32), np.zeros((1, 3, 8, 8), np.uint8), np.zeros((3, 8, 8), ">f8", "F")):
        stream = io.BytesIO()
        np.save(stream, array)
        files.append(stream.getvalue())
    return tuple(files)


def _containers() -> tuple[bytes, ...]:
    from tests.properties.stages import Stages  # imports the whole engine, which the other readers do without

    calibration = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
    return tuple(Stages(convolution(), calibration, march).compiled.to_bytes() for march in ("bayes-e", "bernoulli2"))


def sealed(content: bytes) -> bytes:
    """``content`` with the length and the digests that a container of its bytes would have, as far as it is one."""
    header, entry = struct.Struct("<8sHHIQ32s"), struct.Struct("<4sIQQ32s")  # docs/bin_format.md
    if len(content) < header.size:
        return content
    magic, version, reserved, count, *_ = header.unpack_from(content)
    table, body = bytearray(content[header.size :][: count * entry.size]), memoryview(content)
    for start in range(0, len(table) - entry.size + 1, entry.size):
        kind, index, offset, length, _ = entry.unpack_from(table, start)
        digest = hashlib.sha256(body[offset : offset + length]).digest()
        entry.pack_into(table, start, kind, index, offset, length, digest)
    head = header.pack(magic, version, reserved, count, len(content), hashlib.sha256(table).digest())
    return head + bytes(table) + content[header.size + len(table) :]


def _bin(content: bytes, folder: Path) -> object:
    path = folder / "m.bin"
    path.write_bytes(sealed(content))
    return open_model(path)


LOADERS: Mapping[str, Loader] = {
    loader.name: loader
    for loader in (
        Loader(
            "onnx",
            _seed_models,
            (b"../../../../etc/passwd", b"/etc/passwd", b"location", b"Loop", b"If", b"ConstantOfShape", b"Tile"),
            _onnx,
            (".onnx",),
        ),
        Loader(
            "prototxt",
            lambda: (PROTOTXT.encode(),),
            (*NUMBERS, *(name.encode() for name in caffe.CONVERTERS), b"{", b"}", b"dim: ", b"layers", b'"data"'),
            _prototxt,
            (".prototxt",),
        ),
        Loader("caffemodel", lambda: (caffe_weights(),), (b"\xff\xff\xff\xff\x0f", b"\x00", b"\x0a\x00"), _caffemodel),
        Loader(
            "yaml",
            lambda: (yaml.safe_dump(_YAML).encode(),),
            (*NUMBERS, b"!!python/object:os.system", b"&a [*a]", b"*a", b"null", b"{}", b"[]", b";", b"\n  ", b"? "),
            _yaml,
            (".yaml",),
        ),
        Loader(
            "hb_compile",
            lambda: (yaml.safe_dump(_COMPILE_YAML).encode(),),
            (*NUMBERS, b"{}", b"[]", b";", b"null", b"None", b"true", b"\n  ", b"quant_config", b"../../etc/passwd"),
            _compile_yaml,
        ),
        Loader(
            "npy",
            _arrays,
            (b"'|O'", b"'<U9'", b"(3, 8, 8)", b"(99999999999,)", b"True", b"()", b"(-1,)", b"{"),
            lambda content, folder: _calibration(content, folder, "0.npy", ()),
        ),
        Loader(
            "raw",
            lambda: (np.zeros(192, np.float32).tobytes(), np.zeros(192, np.uint8).tobytes()),
            (b"\x00\x00\x80\x7f", b"\x00\x00\xc0\x7f"),
            lambda content, folder: _calibration(content, folder, "0.bin", ("float32",)),
        ),
        Loader(
            "bin", _containers, (b"\x00", b"\xff\xff\xff\xff", b"CPUM", b"SCHD", b"DATA", *NUMBERS), _bin, (".bin",)
        ),
        *MORE,
    )
}
"""All readers by name."""
