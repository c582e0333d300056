"""Networks of a few nodes, each for a rule that no larger recorded network needs: asked of the original.

``python -m tests.parity.rule_questions FOLDER [NAME...]`` writes and records them, or those that are named, with the
toolchain that ``PTQLAB_HB_MAPPER`` names; ``python -m tests.parity.rule_cases FOLDER...`` then keeps what rules need.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from engine.conformance.questions.network import SmallNetwork
from engine.conformance.recording import CaseRecorder
from engine.errors import PtqlabError
from engine.toolchain.tool import find_toolchain

Changes = Mapping[str, Mapping[str, Any]]
"""Parameters of a configuration, by group."""


@dataclass(frozen=True)
class RuleQuestion:
    """One network and its configuration.

    Attributes:
        build: the network.
        march: BPU architecture.
        changes: parameters besides those that every question has.
    """

    build: Callable[[], SmallNetwork]
    march: str = "bayes-e"
    changes: Changes = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write network, data and configuration to ``folder``; the configuration."""
        (folder / "cal").mkdir(parents=True)
        network = self.build()
        (folder / "net.onnx").write_bytes(network.model().SerializeToString())
        for index, sample in enumerate(network.samples()):
            sample.tofile(folder / "cal" / f"{index}.bin")
        content: dict[str, dict[str, Any]] = {
            "model_parameters": {"onnx_model": "./net.onnx", "march": self.march, "output_model_file_prefix": "net"},
            "input_parameters": {
                "input_name": "x",
                "input_type_train": "featuremap",
                "input_layout_train": "NCHW",
                "input_type_rt": "featuremap",
                "input_layout_rt": "NCHW",
                "norm_type": "no_preprocess",
            },
            "calibration_parameters": {
                "cal_data_dir": "./cal",
                "cal_data_type": "float32",
                "calibration_type": "max",
            },
            "compiler_parameters": {"compile_mode": "latency", "optimize_level": "O0"},
        }
        for group, values in self.changes.items():
            content[group].update(values)
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path


def _calibration(**values: str) -> Changes:
    return {"calibration_parameters": values}


def _on_cpu(*names: str) -> Changes:
    return _calibration(run_on_cpu=";".join(names))


def _on_bpu(*names: str) -> Changes:
    return _calibration(run_on_bpu=";".join(names))


def _types(**types: Mapping[str, str]) -> Changes:
    return {"model_parameters": {"node_info": types}}


def started() -> tuple[SmallNetwork, str]:
    """A network that begins with a convolution, and what that gives: (1, 8, 8, 8)."""
    net = SmallNetwork("asked", (1, 8, 8, 8), 7)
    return net, net.op("Relu", net.conv("x", 8, 8, 3))


def _moved_sum() -> SmallNetwork:
    """A global mean, which stays an int32 sum, flattened at the end."""
    net, x = started()
    net.output(net.op("Flatten", net.op("GlobalAveragePool", net.conv(x, 8, 8)), axis=1))
    return net


def _one_channel() -> SmallNetwork:
    """A convolution to one channel, whose int32 sums have one scale, in another shape at the end."""
    net, x = started()
    net.output(net.reshape(net.conv(x, 8, 1), 1, 64))
    return net


def _at_end(*before: tuple[str, Mapping[str, Any]], last: str = "Clip") -> Callable[[], SmallNetwork]:
    """A Clip or table behind other nodes at the end."""

    def build() -> SmallNetwork:
        net, x = started()
        for op_type, attributes in before:
            if op_type == "Resize":
                x = net.enlarge(x, 1, 8, 16, 16)
            elif op_type == "ConvTranspose":
                x = net.op(op_type, x, net.normal(8, 8, 2, 2), **attributes)
            elif op_type == "Conv":
                x = net.conv(x, 8, 8)
            else:
                x = net.op(op_type, x, **attributes)
        limits = (net.constant(0.25), net.constant(0.75)) if last == "Clip" else ()
        net.output(net.op(last, x, *limits))
        return net

    return build


def _without_operator(op_type: str, **attributes: Any) -> Callable[[], SmallNetwork]:
    """An operator that the BPU does not have between two convolutions."""

    def build() -> SmallNetwork:
        net, x = started()
        net.output(net.conv(net.op(op_type, x, **attributes), 8, 8))
        return net

    return build


def _moved_floats() -> SmallNetwork:
    """What the CPU computes, moved before a convolution."""
    net, x = started()
    net.output(net.conv(net.reshape(net.op("Softmax", x, axis=3), 1, 16, 4, 8), 16, 8))
    return net


def _moved_at_end() -> SmallNetwork:
    """What the CPU computes, moved on the BPU at the end."""
    net, x = started()
    net.output(net.reshape(net.op("Softmax", x, axis=3), 1, 16, 4, 8))
    return net


def _softmax() -> SmallNetwork:
    """A Softmax over the last axis between convolutions."""
    net, x = started()
    net.output(net.conv(net.op("Softmax", net.conv(x, 8, 8), axis=3), 8, 8))
    return net


def _convolutions() -> SmallNetwork:
    """Two convolutions."""
    net, x = started()
    net.output(net.conv(x, 8, 8))
    return net


def _sum_with_relu() -> SmallNetwork:
    """A convolution, a sum with another map and its activation, which are one."""
    net, x = started()
    total = net.op("Relu", net.op("Add", net.conv(x, 8, 8), x))
    net.output(net.conv(total, 8, 8))
    return net


def _peaks() -> SmallNetwork:
    """A map where it is its own maximum over windows."""
    net, x = started()
    peak = net.op("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    mask = net.op("Cast", net.op("Equal", peak, x), to=1)
    net.output(net.conv(net.op("Mul", x, mask), 8, 8))
    return net


def _both_broadcast(op_type: str = "") -> Callable[[], SmallNetwork]:
    """A division on bernoulli2, on the CPU as both maps are broadcast; ``op_type`` gives the divisor."""

    def build() -> SmallNetwork:
        net, x = started()
        rows = net.op("MaxPool", x, kernel_shape=[1, 8], strides=[1, 8])
        columns = net.conv(net.op("MaxPool", x, kernel_shape=[8, 1], strides=[8, 1]), 8, 8)
        net.output(net.conv(net.op("Div", rows, net.op(op_type, columns) if op_type else columns), 8, 8))
        return net

    return build


def _table_of_moved() -> SmallNetwork:
    """Tables behind operators that keep the scale."""
    net, x = started()
    for op_type in ("Exp", "Sigmoid", "LeakyRelu", "Relu", "Clip"):
        pooled = net.op("MaxPool", net.conv(x, 8, 8), kernel_shape=[2, 2])
        limits = (net.constant(-0.5), net.constant(0.75)) if op_type == "Clip" else ()
        net.output(net.conv(net.op(op_type, pooled, *limits), 8, 8))
    moved = [
        net.op("GlobalMaxPool", net.conv(x, 8, 8)),
        net.ops("Split", 2, net.conv(x, 8, 16), axis=1, split=[8, 8])[0],
        net.op("ReduceMax", net.conv(x, 8, 8), axes=[2], keepdims=1),
        net.op("Slice", net.conv(x, 8, 8), net.ints(0), net.ints(4), net.ints(2)),
        net.op("Gather", net.conv(x, 8, 8), net.ints(1, 3, 5), axis=2),
    ]
    net.output(*(net.conv(net.op("Exp", value), 8, 8) for value in moved))
    return net


def _enlarged_floats() -> SmallNetwork:
    """Maps of the CPU in another size, read in different ways."""
    net, x = started()

    def floats() -> str:
        return net.op("Softmax", net.conv(x, 8, 8), axis=3)

    shared = floats()
    net.output(net.conv(net.enlarge(floats(), 1, 8, 16, 16, mode="linear"), 8, 8))
    net.output(net.conv(net.enlarge(shared, 1, 8, 16, 16), 8, 8), net.conv(shared, 8, 8))
    net.output(net.conv(net.enlarge(net.transpose(floats(), 0, 1, 3, 2), 1, 8, 16, 16), 8, 8))
    net.output(net.op("Sigmoid", net.enlarge(floats(), 1, 8, 16, 16)))
    return net


def _enlarged_input() -> SmallNetwork:
    """The input in another size."""
    net = SmallNetwork("asked", (1, 8, 8, 8), 7)
    net.output(net.conv(net.enlarge("x", 1, 8, 16, 16), 8, 8))
    return net


def _lines() -> SmallNetwork:
    """Tables behind Slices of what a convolution of rank 3, on the CPU, and a Softmax give."""
    net = SmallNetwork("asked", (1, 8, 16), 7)
    x = net.op("Relu", net.conv("x", 8, 8, 3, rank=3))
    wide = net.conv(x, 8, 8, 3, rank=3, pads=[2, 2])
    net.output(net.op("Sigmoid", net.op("Slice", wide, net.ints(0), net.ints(16), net.ints(2))))
    scores = net.op("Softmax", net.conv(x, 8, 8, 1, rank=3), axis=2)
    net.output(net.op("Sigmoid", net.op("Slice", scores, net.ints(0), net.ints(8), net.ints(2))))
    return net


def _positions() -> SmallNetwork:
    """Positions of maxima, in another shape, beside their map."""
    net, x = started()
    scores = net.conv(x, 8, 8)
    best = net.op("Cast", net.op("Transpose", net.op("ArgMax", scores, axis=1), perm=[0, 2, 3, 1]), to=1)
    net.output(net.op("Relu", scores), best)
    return net


def _scalar() -> SmallNetwork:
    """A number without dimensions, as a factor."""
    net, x = started()
    means = net.reshape(net.op("GlobalAveragePool", net.conv(x, 8, 8)), 8)
    factor = net.op("Sigmoid", net.op("Gather", means, net.constant(3, np.int64), axis=0))
    net.output(net.conv(net.op("Mul", x, factor), 8, 8))
    return net


def _constant() -> SmallNetwork:
    """A sum with a map that is constant."""
    net, x = started()
    net.output(net.conv(net.op("Add", x, net.normal(1, 8, 8, 8)), 8, 8))
    return net


def _infinite() -> SmallNetwork:
    """A sum with a map that is constant, and infinite at one place."""
    net, x = started()
    values = np.ones((1, 8, 8, 8))
    values[0, 0, 0, 0] = -np.inf
    net.output(net.conv(net.op("Add", x, net.constant(values)), 8, 8))
    return net


def _joined() -> SmallNetwork:
    """Two branches joined between convolutions."""
    net, x = started()
    left = net.op("Sigmoid", net.conv(x, 8, 8))
    right = net.op("Relu", net.conv(x, 8, 8, 3))
    net.output(net.conv(net.op("Concat", left, right, axis=1), 16, 8))
    return net


def _gates() -> SmallNetwork:
    """Gates behind pooling: one reads what a convolution reads too, others alone."""
    net, x = started()
    for op_type in ("Sigmoid", "HardSigmoid"):
        small = net.op("MaxPool", net.conv(x, 8, 8), kernel_shape=[2, 2])
        net.output(net.conv(net.op("Add", net.op(op_type, small), net.conv(small, 8, 8)), 8, 8))
        net.output(net.conv(net.op(op_type, net.op("MaxPool", net.conv(x, 8, 8), kernel_shape=[2, 2])), 8, 8))
    return net


def _tables_for_cpu() -> SmallNetwork:
    """Tables and sums that only the CPU reads, in front of convolutions and at the end."""
    net, x = started()
    for op_type in ("Exp", "Relu"):
        table = net.op(op_type, net.op("MaxPool", net.conv(x, 8, 8), kernel_shape=[2, 2]))
        net.output(net.conv(net.op("Softmax", table, axis=3), 8, 8))
    total = net.op("Add", net.op("Sigmoid", net.conv(x, 8, 8)), x)
    net.output(net.conv(net.op("Softmax", total, axis=3), 8, 8))
    net.output(net.op("LRN", net.op("Exp", net.conv(x, 8, 8)), size=3))
    return net


def _behind(op_type: str, *then: str, **attributes: Any) -> Callable[[], SmallNetwork]:
    """A convolution, an operator, other operators without attributes, and a convolution."""

    def build() -> SmallNetwork:
        net, x = started()
        x = net.conv(x, 8, 8)
        x = net.enlarge(x, 1, 8, 16, 16) if op_type == "Resize" else net.op(op_type, x, **attributes)
        for other in then:
            x = net.op(other, x)
        net.output(net.conv(x, 8, 8))
        return net

    return build


def _residual() -> SmallNetwork:
    """A residual block, and a convolution behind it."""
    net, x = started()
    net.output(net.conv(net.op("Relu", net.op("Add", net.conv(x, 8, 8), x)), 8, 8))
    return net


def _pool_beside_enlarged() -> SmallNetwork:
    """A map that a Resize and a MaxPool read, before convolutions."""
    net, x = started()
    x = net.conv(x, 8, 8)
    net.output(net.conv(net.enlarge(x, 1, 8, 16, 16), 8, 8))
    net.output(net.conv(net.op("MaxPool", x, kernel_shape=[2, 2]), 8, 8))
    return net


def _enlarged_joined() -> SmallNetwork:
    """A map in another size, joined with one of that size."""
    net = SmallNetwork("asked", (1, 8, 16, 16), 7)
    x = net.op("Relu", net.conv("x", 8, 8, 3))
    small = net.op("Relu", net.conv(x, 8, 8, 3, strides=[2, 2]))
    net.output(net.conv(net.op("Concat", net.enlarge(small, 1, 8, 16, 16), x, axis=1), 16, 8))
    return net


def _softmax_at_end() -> SmallNetwork:
    """A Softmax of a convolution at the end."""
    net, x = started()
    net.output(net.op("Softmax", net.conv(x, 8, 8), axis=3))
    return net


def _output_between() -> SmallNetwork:
    """A convolution that is an output, and that another reads."""
    net, x = started()
    middle = net.conv(x, 8, 8)
    net.output(middle, net.conv(middle, 8, 8))
    return net


def _clip_for_softmax() -> SmallNetwork:
    """Clips that only the CPU reads, in front of convolutions: one with a convolution, one alone."""
    net, x = started()
    for low in (0.0, 0.25):
        clipped = net.op("Clip", net.conv(x, 8, 8), net.constant(low), net.constant(0.75))
        net.output(net.conv(net.op("Softmax", clipped, axis=3), 8, 8))
    return net


def _parts_at_end() -> SmallNetwork:
    """Two parts of what a Sigmoid gives: one is an output, a convolution reads the other."""
    net, x = started()
    gate = net.op("Sigmoid", net.conv(x, 8, 8))
    first, second = (net.op("Slice", gate, net.ints(at), net.ints(at + 4), net.ints(1)) for at in (0, 4))
    net.output(first, net.conv(second, 4, 8))
    return net


def _clips(at_end: bool, low: float = 0.25) -> Callable[[], SmallNetwork]:
    """Clips of the same two limits behind convolutions, the last at the end or not; one with them if ``low`` is 0."""

    def build() -> SmallNetwork:
        net, x = started()
        limits = (net.constant(low), net.constant(0.75))
        x = net.op("Clip", net.conv(x, 8, 8), *limits)
        x = net.op("Clip", net.conv(x, 8, 8), *limits)
        net.output(x if at_end else net.conv(x, 8, 8))
        return net

    return build


def _transposed_convolution() -> SmallNetwork:
    """A ConvTranspose between convolutions."""
    net, x = started()
    enlarged = net.op("ConvTranspose", net.conv(x, 8, 8), net.normal(8, 8, 2, 2), **_SMALLER)
    net.output(net.conv(enlarged, 8, 8))
    return net


def _two_tables(op_type: str) -> Callable[[], SmallNetwork]:
    """An operator on what two tables give, before a convolution."""

    def build() -> SmallNetwork:
        net, x = started()
        tables = [net.op(table, net.conv(x, 8, 8)) for table in ("Sigmoid", "Exp")]
        net.output(net.conv(net.op(op_type, *tables), 8, 8))
        return net

    return build


def _stacks() -> SmallNetwork:
    """Stacks of matrices, multiplied."""
    net, x = started()
    maps = [net.conv(x, 8, 8) for _ in range(2)]
    net.output(net.conv(net.op("MatMul", *maps), 8, 8))
    return net


def _framed() -> SmallNetwork:
    """A map with a border of 0.5, before a convolution."""
    net, x = started()
    framed = net.op("Pad", net.conv(x, 8, 8), net.ints(0, 0, 1, 1, 0, 0, 1, 1), net.constant(0.5))
    net.output(net.conv(framed, 8, 8))
    return net


_SMALLER = {"kernel_shape": [2, 2], "strides": [2, 2]}
_INPUT, _OUTPUT = {"ON": "BPU", "InputType": "int16"}, {"ON": "BPU", "OutputType": "int16"}
_INPUT_8, _OUTPUT_8 = {"ON": "BPU", "InputType": "int8"}, {"ON": "BPU", "OutputType": "int8"}
_WIDE = {"ON": "BPU", "InputType": "int16", "OutputType": "int16"}

QUESTIONS: Mapping[str, RuleQuestion] = {
    "positions": RuleQuestion(_positions),
    "scalar": RuleQuestion(_scalar),
    "clipped_global_max": RuleQuestion(_at_end(("GlobalMaxPool", {}))),
    "clipped_average": RuleQuestion(_at_end(("AveragePool", _SMALLER))),
    "clipped_deconv": RuleQuestion(_at_end(("ConvTranspose", _SMALLER))),
    "clipped_enlarged": RuleQuestion(_at_end(("Resize", {}))),
    "sigmoid_enlarged": RuleQuestion(_at_end(("Resize", {}), last="Sigmoid")),
    "sigmoid_enlarged_asked": RuleQuestion(
        _at_end(("Resize", {}), ("Sigmoid", {}), ("Conv", {}), last="Relu"),
        changes=_types(Sigmoid_3={"ON": "BPU", "InputType": "int16"}),
    ),
    "clipped_bernoulli2": RuleQuestion(_at_end(("Conv", {})), "bernoulli2"),
    "moved_sum": RuleQuestion(_moved_sum),
    "one_channel": RuleQuestion(_one_channel),
    "lrn": RuleQuestion(_without_operator("LRN", size=3)),
    "lp": RuleQuestion(_without_operator("LpNormalization", axis=1)),
    "moved_floats": RuleQuestion(_moved_floats),
    "moved_at_end": RuleQuestion(_moved_at_end, changes=_on_bpu("Reshape_3")),
    "softmax": RuleQuestion(_softmax, changes=_on_bpu("Softmax_3")),
    "asked_for": RuleQuestion(_convolutions, changes=_on_cpu("Conv_0")),
    "output_int16": RuleQuestion(_convolutions, changes=_calibration(optimization="set_model_output_int16")),
    "sum_on_cpu": RuleQuestion(_sum_with_relu, changes=_on_cpu("Add_3")),
    "comparison_on_cpu": RuleQuestion(_peaks, changes=_on_cpu("Equal_3")),
    "division": RuleQuestion(_both_broadcast(), "bernoulli2"),
    "division_by_exp": RuleQuestion(_both_broadcast("Exp"), "bernoulli2"),
    "table_of_moved": RuleQuestion(_table_of_moved),
    "enlarged_floats": RuleQuestion(_enlarged_floats),
    "enlarged_input": RuleQuestion(_enlarged_input),
    "lines_of_floats": RuleQuestion(_lines),
    "constant": RuleQuestion(_constant),
    "infinite": RuleQuestion(_infinite),
    "joined_int16": RuleQuestion(_joined, changes=_types(Concat_6=_WIDE)),
    "tables_for_cpu": RuleQuestion(_tables_for_cpu),
    "gates": RuleQuestion(_gates),
    "gates_bernoulli2": RuleQuestion(_gates, "bernoulli2", changes=_calibration(calibration_type="kl")),
    "int16_convolution": RuleQuestion(_behind("Relu"), changes=_types(Conv_2=_OUTPUT)),
    "int16_summand": RuleQuestion(_residual, changes=_types(Conv_2=_OUTPUT)),
    "int16_sum": RuleQuestion(_residual, changes=_types(Add_3=_INPUT)),
    "int16_for_cpu": RuleQuestion(_behind("Softmax", axis=3), changes=_types(Conv_2=_OUTPUT)),
    "int16_behind_resize": RuleQuestion(_behind("Resize"), changes=_types(Conv_4=_INPUT)),
    "int16_beside_resize": RuleQuestion(_pool_beside_enlarged, changes=_types(MaxPool_5=_OUTPUT)),
    "int16_average": RuleQuestion(_behind("AveragePool", **_SMALLER), changes=_types(Conv_4=_INPUT)),
    "int16_table": RuleQuestion(_behind("Sigmoid"), changes=_types(Sigmoid_3=_OUTPUT)),
    "int16_table_int8": RuleQuestion(_behind("Sigmoid"), changes=_types(Sigmoid_3=_OUTPUT, Conv_4=_INPUT_8)),
    "int16_pool": RuleQuestion(_behind("MaxPool", **_SMALLER), changes=_types(MaxPool_3=_OUTPUT)),
    "int16_clip": RuleQuestion(_clips(at_end=False), changes=_types(Clip_3=_OUTPUT)),
    "int16_joined_resize": RuleQuestion(_enlarged_joined, changes=_types(Resize_4=_OUTPUT, Concat_5=_WIDE)),
    "clips_in_convolutions": RuleQuestion(_clips(at_end=True, low=0.0)),
    "softmax_output_int16": RuleQuestion(_softmax_at_end, changes=_calibration(optimization="set_model_output_int16")),
    "output_between_int16": RuleQuestion(_output_between, changes=_calibration(optimization="set_model_output_int16")),
    "sigmoid_global_max": RuleQuestion(_at_end(("GlobalMaxPool", {}), last="Sigmoid")),
    "softmax_between_output_int16": RuleQuestion(
        _behind("Softmax", axis=3), changes=_calibration(optimization="set_model_output_int16")
    ),
    "int16_for_sigmoid": RuleQuestion(_behind("GlobalMaxPool", "Sigmoid"), changes=_types(Conv_5=_INPUT)),
    "mean_int8": RuleQuestion(
        _at_end(("Conv", {}), last="GlobalAveragePool"), changes=_types(GlobalAveragePool_3=_OUTPUT_8)
    ),
    "clip_for_softmax": RuleQuestion(_clip_for_softmax),
    "moved_at_end_int16": RuleQuestion(
        _moved_at_end,
        changes=_calibration(run_on_bpu="Reshape_3", optimization="set_model_output_int16"),
    ),
    "clips_at_end": RuleQuestion(_clips(at_end=True)),
    "sigmoid_at_end": RuleQuestion(_at_end(("Conv", {}), last="Sigmoid")),
    "sigmoid_int8": RuleQuestion(_at_end(("Conv", {}), last="Sigmoid"), changes=_types(Sigmoid_3=_OUTPUT_8)),
    "sigmoid_input_int8": RuleQuestion(_at_end(("Conv", {}), last="Sigmoid"), changes=_types(Sigmoid_3=_INPUT_8)),
    "int16_sigmoid_of_int8": RuleQuestion(
        _behind("Sigmoid"), changes=_types(Sigmoid_3={"ON": "BPU", "InputType": "int8", "OutputType": "int16"})
    ),
    "outputs_int8": RuleQuestion(
        _at_end(("Conv", {}), last="Sigmoid"), changes=_calibration(optimization="set_model_output_int8")
    ),
    "convolution_int8": RuleQuestion(_convolutions, changes=_types(Conv_2=_OUTPUT_8)),
    "int16_convtranspose": RuleQuestion(
        _transposed_convolution, changes=_types(ConvTranspose_3=_OUTPUT, Conv_4=_INPUT)
    ),
    "int8_product": RuleQuestion(_two_tables("Mul"), changes=_types(Mul_6=_OUTPUT_8, Conv_7=_INPUT)),
    "int8_concat": RuleQuestion(_joined, changes=_types(Concat_6=_OUTPUT_8, Conv_7=_INPUT)),
    "int8_pool": RuleQuestion(_behind("MaxPool", **_SMALLER), changes=_types(Conv_2=_OUTPUT, MaxPool_3=_INPUT_8)),
    "int8_before_table": RuleQuestion(_at_end(("Conv", {}), last="Sigmoid"), changes=_types(Conv_2=_OUTPUT_8)),
    "int16_pool_and_resize": RuleQuestion(_pool_beside_enlarged, changes=_types(MaxPool_5=_OUTPUT, Resize_3=_OUTPUT)),
    "int16_before_resize": RuleQuestion(_behind("Resize"), changes=_types(Conv_2=_OUTPUT)),
    "int16_concat_of_resize": RuleQuestion(_enlarged_joined, changes=_types(Concat_5=_OUTPUT)),
    "joined_asked_resize": RuleQuestion(_enlarged_joined, changes=_types(Resize_4=_OUTPUT)),
    "moved_at_end_asked": RuleQuestion(_moved_at_end, changes=_types(Reshape_3=_OUTPUT)),
    "stacks": RuleQuestion(_stacks, "bernoulli2"),
    "framed": RuleQuestion(_framed),
    "parts_at_end": RuleQuestion(_parts_at_end),
    "parts_at_end_int16": RuleQuestion(_parts_at_end, changes=_calibration(optimization="set_model_output_int16")),
}


def record(questions: Mapping[str, RuleQuestion]) -> None:
    """Record those of ``questions`` that the command line names, or all, into the folder that it names."""
    tool = find_toolchain(None, time_limit=120)
    if tool is None or len(sys.argv) < 2:
        sys.exit("expected PTQLAB_HB_MAPPER, and the folder to record into")
    to = Path(sys.argv[1])
    recorder = CaseRecorder(tool, None, to / "cases", weights=True, resume=True)
    for name in sys.argv[2:] or questions:
        config = to / "questions" / name / "config.yaml"
        if not config.is_file():
            questions[name].write(config.parent)
        try:
            found = recorder.record(config)
        except PtqlabError as error:
            sys.stdout.write(f"{name}: {error}\n")
            continue
        sys.stdout.write(f"{name}: {found.failure or 'recorded'}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    record(QUESTIONS)
