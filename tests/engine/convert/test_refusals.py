"""Quantised models that the original's compiler refuses."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from engine.chips import load_chip
from engine.convert.refusals import refuse_bare_rectifiers, refuse_cpu_operators, refuse_uncompilable
from engine.errors import UnsupportedError
from engine.ir import CALIBRATION_OP, HORIZON_DOMAIN, MARK_ON, mark
from engine.terms import Device


def shuffled(channels: int, block: int = 2) -> ir.Model:
    """A DepthToSpace to ``channels``."""
    result = ir.Value(name="y", shape=ir.Shape((1, 8, 8, channels)))
    node = ir.node(
        "HzDepthToSpace",
        [ir.Value(name="x")],
        {"blocksize": block},
        domain=HORIZON_DOMAIN,
        outputs=[result],
        name="shuffle",
    )
    return ir.Model(ir.Graph(node.inputs, node.outputs, nodes=[node], name="g"), ir_version=8)


def test_channels_behind_a_depth_to_space_are_a_multiple_of_four_on_bernoulli2() -> None:
    with pytest.raises(UnsupportedError, match=r"output channel of shuffle .* must be a multiple of 4"):
        refuse_uncompilable(shuffled(3), load_chip("bernoulli2"))


@pytest.mark.parametrize("block", [3, 4, 8])
def test_blocks_of_a_depth_to_space_are_of_two_by_two_pixels_on_bernoulli2(block: int) -> None:
    with pytest.raises(UnsupportedError, match=r"blocksize of shuffle .* must be 2 on bernoulli2, it is .*run_on_cpu"):
        refuse_uncompilable(shuffled(8, block), load_chip("bernoulli2"))


@pytest.mark.parametrize(("channels", "block", "march"), [(3, 2, "bayes-e"), (8, 4, "bayes"), (8, 2, "bernoulli2")])
def test_others_are_compiled(channels: int, block: int, march: str) -> None:
    model = shuffled(channels, block)
    refuse_uncompilable(model, load_chip(march))
    assert model.graph[0].outputs[0].shape[-1] == channels


@pytest.mark.parametrize("op_type", ["HzSwish", "HzHardSwish", "HzGelu", "HzMish"])
def test_functions_that_the_bpu_alone_has_are_refused_on_the_cpu(op_type: str) -> None:
    result = ir.Value(name="y", shape=ir.Shape((1, 8, 8)))
    node = ir.node(op_type, [ir.Value(name="x")], domain=HORIZON_DOMAIN, outputs=[result], name="gate")
    model = ir.Model(ir.Graph(node.inputs, node.outputs, nodes=[node], name="g"), ir_version=8)
    refuse_cpu_operators(model)
    mark(node, MARK_ON, Device.BPU)
    refuse_cpu_operators(model)
    mark(node, MARK_ON, Device.CPU)
    with pytest.raises(UnsupportedError, match=rf"cpu operators: {op_type}; the BPU alone computes gate"):
        refuse_cpu_operators(model)


@pytest.mark.parametrize(
    ("op_type", "shape", "pads", "reason"),
    [
        ("Conv", (1, 4, 8), [2, 0], r"padding \[2, 0\] of line \(Conv\)"),
        ("Conv", (1, 4, 8, 1), [19, 0, 0, 0], r"must be the same at both ends"),
        ("ConvTranspose", (1, 4, 8), [1, 1], r"line \(ConvTranspose\) of 3 dimensions .* 1 x n"),
        ("ConvTranspose", (1, 4, 8, 8), [0, 0, 0, 1], r"padding .* of line \(ConvTranspose\)"),
        ("Pad", (4, 8), [0, 0, 0, 3], r"line \(Pad\) of 2 dimensions"),
        ("Pad", (1, 4, 8, 8), [0, 0, 0, 0, 0, 0, 0, 3], ""),
        ("Conv", (1, 4, 8), [1, 1], ""),
        ("ConvTranspose", (1, 4, 8, 8), [1, 1, 1, 1], ""),
    ],
)
def test_forms_that_the_cpu_lacks_are_refused_there(
    op_type: str, shape: tuple[int, ...], pads: list[int], reason: str
) -> None:
    x, weight = ir.Value(name="x", shape=ir.Shape(shape)), ir.Value(name="w")
    node = ir.node(op_type, [x, weight], {"pads": pads}, outputs=[ir.Value(name="y", shape=x.shape)], name="line")
    model = ir.Model(ir.Graph([x, weight], node.outputs, nodes=[node], name="g"), ir_version=8)
    mark(node, MARK_ON, Device.BPU)
    refuse_cpu_operators(model)
    mark(node, MARK_ON, Device.CPU)
    if not reason:
        refuse_cpu_operators(model)
        return
    with pytest.raises(UnsupportedError, match=reason):
        refuse_cpu_operators(model)


def rectified(*readers: str, calibrated: bool = False) -> ir.Model:
    """A PRelu on the BPU that ``readers`` read, behind an ``HzCalibration`` or not."""
    value = ir.Value(name="y", shape=ir.Shape((1, 8, 8, 8)))
    rectifier = ir.node("PRelu", [ir.Value(name="x"), ir.Value(name="slope")], outputs=[value], name="rectifier")
    mark(rectifier, MARK_ON, Device.BPU)
    nodes = [rectifier]
    if calibrated:
        nodes.append(ir.node(CALIBRATION_OP, [value], domain=HORIZON_DOMAIN))
        value = nodes[-1].outputs[0]
    nodes += [ir.node(reader, [value]) for reader in readers]
    return ir.Model(ir.Graph(rectifier.inputs, nodes[-1].outputs, nodes=nodes, name="g"), ir_version=8)


def test_a_prelu_without_a_scale_of_its_own_is_refused_on_bernoulli2() -> None:
    with pytest.raises(
        UnsupportedError, match=r"rectifier \(PRelu\) has no scale of its own .* only Resize, Slice read"
    ):
        refuse_bare_rectifiers(rectified("Slice", "Resize"), load_chip("bernoulli2"))
    with pytest.raises(UnsupportedError, match="run_on_cpu: rectifier"):
        refuse_bare_rectifiers(rectified("Slice"), load_chip("bernoulli2"))


@pytest.mark.parametrize(("calibrated", "march"), [(True, "bernoulli2"), (False, "bayes"), (False, "bayes-e")])
def test_other_prelus_are_converted(calibrated: bool, march: str) -> None:
    refuse_bare_rectifiers(rectified("Slice", calibrated=calibrated), load_chip(march))
