"""Multipliers that the original was asked for: ``python -m tests.parity.multipliers``.

Networks state the thresholds of what an operator reads and gives (``calibration_type: load``), so that the ratio of the
scales, times a power of two, lies close to half an integer or above 32766.5: there it shows in which type the ratio is
computed, how it is rounded, and what the largest multiplier is. The toolchain that ``PTQLAB_HB_MAPPER`` names converts
them, and ``recorded/multipliers.json`` keeps scales and answers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import yaml
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from engine.toolchain.tool import find_toolchain

RECORDED = Path(__file__).parent / "recorded" / "multipliers.json"
ASKED = (
    *((kind, "bayes-e") for kind in ("Mul", "Add", "Sub", "MatMul", "Concat", "ReduceSum")),
    ("Mul", "bernoulli2"),
)
"""Kinds of nodes and marches; bernoulli2 computes sums and requantises by convolutions."""
OF_PRODUCTS = frozenset({"Mul", "MatMul"})
"""What is rescaled is the product of two scales, not one."""
ONE_OPERAND = frozenset({"ReduceSum"})
LIMITS = (32766.45, 32766.55, 32766.9, 32767.3, 32767.8)
"""Ratios, times a power of two, around the largest multiplier."""
DRAWN = 20
CHANNELS, SIDE = 6, 12
SHIFTS = ("x_shift", "accu_right_shift", "right_shift", "output_right_shift", "out_shift")


@dataclass(frozen=True)
class Question:
    """Scales of what an operator reads, float32; of what it gives, too."""

    first: float
    second: float
    output: float


def questions(kind: str, seed: int) -> list[Question]:
    """Scales for one network of ``kind``."""
    rng = np.random.default_rng(seed)
    wanted = [*LIMITS, *(int(rng.integers(16400, 32700)) + 0.5 + rng.uniform(-0.003, 0.003) for _ in range(DRAWN))]
    found = [_question(kind, value, rng) for value in wanted]
    if kind in ("Add", "Sub"):  # the ratio of the operands counts too
        found += [Question(0.04, 0.04 * value / 2**15, 0.05) for value in LIMITS]
    return [Question(*(float(np.float32(each)) for each in (one.first, one.second, one.output))) for one in found]


def _question(kind: str, value: float, rng: np.random.Generator) -> Question:
    first, second = rng.uniform(0.02, 0.06, 2)
    if kind in ("Add", "Sub"):
        second = first * rng.uniform(0.3, 0.9)
    whole = np.float32(first) * np.float32(second) if kind in OF_PRODUCTS else np.float32(first)
    output = float(whole) * 2**15 / value
    while output > 0.06:
        output /= 2
    while output < 0.003:
        output *= 2
    return Question(first, second, output)


def network(kind: str, asked: Sequence[Question]) -> onnx.ModelProto:
    """One operator and its neighbours for each of ``asked``."""
    return helper.make_model(_Writer(kind, asked).graph(), opset_imports=[helper.make_opsetid("", 11)], ir_version=7)


class _Writer:
    def __init__(self, kind: str, asked: Sequence[Question]) -> None:
        self._kind, self._asked = kind, asked
        self._rng = np.random.default_rng(0)
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []

    def graph(self) -> onnx.GraphProto:
        image = self._pair("image", 1.0)
        joined = "Concat" if self._kind == "Concat" else None
        results = []
        for index, one in enumerate(self._asked):
            operands = [self._pair(self._convolution(image, f"a{index}", 3, CHANNELS), one.first)]
            if self._kind not in ONE_OPERAND:
                operands.append(self._pair(self._convolution(image, f"b{index}", 3, CHANNELS), one.second))
            keys: dict[str, Any] = {"axis": 1} if joined else {}
            keys |= {"axes": [1], "keepdims": 1} if self._kind in ONE_OPERAND else {}
            self._nodes.append(helper.make_node(self._kind, operands, [f"m{index}"], name_of(index), **keys))
            channels = 2 * CHANNELS if joined else 1 if self._kind in ONE_OPERAND else CHANNELS
            results.append(self._convolution(self._pair(f"m{index}", one.output), f"o{index}", channels, 4))
        shape = [1, 4, SIDE, SIDE]
        return helper.make_graph(
            self._nodes,
            "multipliers",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in results],
            self._constants,
        )

    def _pair(self, tensor: str, scale: float) -> str:
        self._constant(f"{tensor}_scale", np.asarray(scale, np.float32))
        self._constant(f"{tensor}_zero", np.asarray(0, np.int8))
        others = [f"{tensor}_scale", f"{tensor}_zero"]
        self._nodes += [
            helper.make_node("QuantizeLinear", [tensor, *others], [f"{tensor}_q"], f"{tensor}_quantize"),
            helper.make_node("DequantizeLinear", [f"{tensor}_q", *others], [f"{tensor}_d"], f"{tensor}_dequantize"),
        ]
        return f"{tensor}_d"

    def _convolution(self, source: str, result: str, read: int, given: int) -> str:
        self._constant(f"{result}_weights", self._rng.normal(0, 0.1, (given, read, 1, 1)).astype(np.float32))
        self._nodes.append(helper.make_node("Conv", [source, f"{result}_weights"], [result], f"{result}_conv"))
        return result

    def _constant(self, name: str, value: NDArray[Any]) -> None:
        self._constants.append(numpy_helper.from_array(value, name))


def name_of(index: int) -> str:
    """Name of the node of a question; a Concat's first operand is requantised by a node named after that."""
    return f"asked_{index}"


def write(folder: Path, kind: str, march: str, asked: Sequence[Question]) -> Path:
    """Network and configuration; the path of the latter."""
    prefix = f"multipliers_{kind.lower()}_{march.replace('-', '_')}"
    onnx.save(network(kind, asked), folder / "net.onnx")
    content = {
        "model_parameters": {"onnx_model": "./net.onnx", "march": march, "output_model_file_prefix": prefix},
        "input_parameters": {
            "input_name": "image",
            "input_shape": f"1x3x{SIDE}x{SIDE}",
            "norm_type": "no_preprocess",
            **{f"input_{key}": value for when in ("rt", "train") for key, value in _formats(when)},
        },
        "calibration_parameters": {"calibration_type": "load"},
        "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O0"},
    }
    path = folder / "net.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def _formats(when: str) -> Iterator[tuple[str, str]]:
    yield f"type_{when}", "featuremap"
    yield f"layout_{when}", "NCHW"


def answers(quantized: onnx.ModelProto, kind: str, count: int) -> list[list[int] | None]:
    """Multiplier, shifts and, of sums, ``e_scale`` of each question; None where no such node answers it."""
    nodes = {node.name: node for node in quantized.graph.node}
    found: list[list[int] | None] = []
    for index in range(count):
        node = nodes.get(f"a{index}_d_Requantize" if kind == "Concat" else name_of(index))
        values = {} if node is None else {each.name: helper.get_attribute_value(each) for each in node.attribute}
        scale = values.get("output_scale", values.get("scale"))
        if scale is None:
            found.append(None)
            continue
        shifts = [int(values[name][0]) for name in SHIFTS if name in values]
        found.append([abs(int(scale[0])), *shifts, *([int(values["e_scale"][0])] if "e_scale" in values else [])])
    return found


def main() -> int:
    """Ask all questions and write them down."""
    tool = find_toolchain(None)
    if tool is None:
        sys.stderr.write("PTQLAB_HB_MAPPER names no toolchain\n")
        return 1
    rows = []
    for seed, (kind, march) in enumerate(ASKED):
        asked = questions(kind, seed)
        with TemporaryDirectory() as name:
            built = tool.convert(write(Path(name), kind, march, asked), Path(name, "model_output"))
            if "quantized" not in built.models:
                sys.stderr.write(f"{kind}, {march}: {built.failure}\n")
                return 1
            found = answers(onnx.load(built.models["quantized"]), kind, len(asked))
        scales = [[one.first, one.second, one.output] for one in asked]
        pairs = [[*pair] for pair in zip(scales, found, strict=True) if pair[1] is not None]
        rows.append({"kind": kind, "march": march, "answers": pairs})
        sys.stdout.write(f"{kind}, {march}: {len(pairs)} of {len(asked)}\n")
    RECORDED.write_text(
        "[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n", encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
