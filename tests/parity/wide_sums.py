"""Small residual blocks and Clips, in int16 here and there, as the original converts them.

``python -m tests.parity.wide_sums`` asks the toolchain that ``PTQLAB_HB_MAPPER`` names and keeps the quantised model
that it made of each of :data:`CASES` in ``recorded/wide_sums``.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import yaml
from onnx import NodeProto, TensorProto, helper, numpy_helper

from engine.toolchain.tool import find_toolchain
from tests.engine.conformance.models import write_network

RECORDED = Path(__file__).parent / "recorded" / "wide_sums"
CHANNELS = 8
INPUT, OUTPUT = MappingProxyType({"InputType": "int16"}), MappingProxyType({"OutputType": "int16"})


@dataclass(frozen=True)
class Case:
    """One conversion.

    Attributes:
        info: ``node_info``.
        march: BPU architecture.
        activation: between the convolutions: ``Relu``, or ``Clip`` to 0 and 6, whose limits are shared.
        behind: whether one follows the sum.
        small: whether one channel of two convolutions has weights of 1e-9.
        limits: of a Clip behind a MaxPool, which then takes the place of the residual block.
    """

    info: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    march: str = "bayes-e"
    activation: str = "Relu"
    behind: bool = True
    small: bool = False
    limits: tuple[float, float] | None = None

    def write(self, folder: Path) -> Path:
        """The configuration file, with the network and its data beside it."""
        path = write_network(folder)
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        content["model_parameters"]["march"] = self.march
        if self.info:
            content["model_parameters"]["node_info"] = {name: {"ON": "BPU", **row} for name, row in self.info.items()}
        content["compiler_parameters"]["optimize_level"] = "O0"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        onnx.save(self._residual() if self.limits is None else _clipped(*self.limits), folder / "net.onnx")
        return path

    def _residual(self) -> onnx.ModelProto:
        shapes = {"wa": (3, 3, 3), "wb": (CHANNELS, 1, 1), "wc": (CHANNELS, 1, 1), "we": (CHANNELS, 1, 1)}
        arrays = _weights(7, shapes)
        if self.small:
            arrays["wb"][2] *= 1e-9
            arrays["wc"][1] *= 1e-9
        limits = [] if self.activation == "Relu" else ["low", "high"]
        arrays |= {"low": np.zeros((), np.float32), "high": np.full((), 6, np.float32)} if limits else {}

        def activated(source: str, result: str, name: str) -> NodeProto:
            return helper.make_node(self.activation, [source, *limits], [result], name)

        nodes = [
            helper.make_node("Conv", ["image", "wa"], ["a0"], "ca", pads=[1] * 4),
            activated("a0", "a", "ra"),
            helper.make_node("Conv", ["a", "wb"], ["b0"], "cb"),
            activated("b0", "b", "rb"),
            helper.make_node("Conv", ["b", "wc"], ["c"], "cc"),
            helper.make_node("Add", ["c", "a"], ["s"], "add"),
            *([activated("s", "r", "rs")] if self.behind else []),
            helper.make_node("Conv", ["r" if self.behind else "s", "we"], ["e"], "ce"),
        ]
        return _model(nodes, arrays, 16)


def _clipped(low: float, high: float) -> onnx.ModelProto:
    arrays = _weights(3, {"wa": (3, 3, 3), "wb": (CHANNELS, 1, 1)})
    arrays |= {name: np.full((), value, np.float32) for name, value in (("low", low), ("high", high))}
    nodes = [
        helper.make_node("Conv", ["image", "wa"], ["a"], "ca", pads=[1] * 4),
        helper.make_node("MaxPool", ["a"], ["m"], "mp", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Clip", ["m", "low", "high"], ["k"], "clip"),
        helper.make_node("Conv", ["k", "wb"], ["e"], "cb"),
    ]
    return _model(nodes, arrays, 8)


def _weights(seed: int, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0, 0.3, (CHANNELS, *shape)).astype(np.float32) for name, shape in shapes.items()}


def _model(nodes: Sequence[NodeProto], arrays: Mapping[str, Any], size: int) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, [1, CHANNELS, size, size])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)


CLIP = MappingProxyType({"clip": MappingProxyType({**INPUT, **OUTPUT})})
CASES: Mapping[str, Case] = {
    "convolution": Case({"cc": INPUT}),
    "sum": Case({"add": INPUT}),
    "both": Case({"cc": INPUT, "add": INPUT}),
    "behind": Case({"ce": INPUT}),
    "first_operand": Case({"add": {"InputType0": "int16"}}),
    "second_operand": Case({"add": {"InputType1": "int16"}}),
    "result_of_convolution": Case({"cc": OUTPUT}),
    "result_of_sum": Case({"add": OUTPUT}),
    "convolution_before": Case({"cb": INPUT}),
    "around": Case({"cc": INPUT, "ce": INPUT}),
    "all": Case(dict.fromkeys(("ca", "cb", "cc", "add", "ce"), INPUT)),
    "convolution_no_relu": Case({"cc": INPUT}, behind=False),
    "sum_no_relu": Case({"add": INPUT}, behind=False),
    "behind_no_relu": Case({"ce": INPUT}, behind=False),
    "small_weights": Case({"cc": INPUT, "cb": INPUT, "add": INPUT}, small=True),
    "clips_convolution": Case({"cc": INPUT}, "bayes", "Clip"),
    "clips_sum": Case({"add": INPUT}, "bayes", "Clip"),
    "clips_behind": Case({"ce": INPUT}, "bayes", "Clip"),
    "clip_0_1": Case(CLIP, limits=(0, 1)),
    "clip_0.2_0.7": Case(CLIP, limits=(0.2, 0.7)),
    "clip_-2_100": Case(CLIP, limits=(-2, 100)),
    "clip_int8_0_1": Case(limits=(0, 1)),
    "clip_int8_-3_1": Case(limits=(-3, 1)),
}


def main() -> None:
    """Record every case that is named, or all."""
    tool = find_toolchain(None, time_limit=300)
    if tool is None:
        sys.exit("PTQLAB_HB_MAPPER is not set")
    RECORDED.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or CASES:
        with TemporaryDirectory() as work:
            found = tool.convert(CASES[name].write(Path(work)), Path(work) / "model_output")
            if "quantized" not in found.models:
                sys.exit(f"{name}: {found.failure}")
            (RECORDED / f"{name}.onnx.gz").write_bytes(gzip.compress(found.models["quantized"].read_bytes(), mtime=0))


if __name__ == "__main__":
    main()
