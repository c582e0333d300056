"""What reshapes and transpositions move: the networks of the reference that show each rule are named."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.compile.motion import Motion, merged_permutation, motions_of, rearranged_inputs

PLANES, PIXELS = (0, 3, 1, 2), (0, 2, 3, 1)
Step = tuple[int, ...] | list[int]
"""A permutation, or as a list the shape to take."""


def tensor(name: str, shape: tuple[int, ...]) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(ir.DataType.INT8), shape=ir.Shape(shape))


def chain(shape: tuple[int, ...], *steps: Step) -> list[ir.Node]:
    """Nodes that read each other, and a last one that ends the chain."""
    value, nodes = tensor("x", shape), []
    for index, step in enumerate(steps):
        permuted = tuple(shape[axis] for axis in step) if isinstance(step, tuple) else tuple(step)
        output, attributes = tensor(f"t{index}", permuted), {"perm": list(step)} if isinstance(step, tuple) else {}
        op_type = "Transpose" if isinstance(step, tuple) else "Reshape"
        nodes.append(ir.node(op_type, [value], attributes, outputs=[output]))
        value, shape = output, permuted
    nodes.append(ir.node("HzLut", [value], outputs=[tensor("y", shape)], domain="horizon"))
    return nodes


def motions(shape: tuple[int, ...], *steps: Step) -> list[Motion]:
    """What each step does that is no layout change."""
    found = motions_of(chain(shape, *steps))
    return list(found.values())


@pytest.mark.parametrize(
    ("shape", "steps", "expected"),
    [
        # vit_sep, vit_timm, min_rank3, min_ln: pixels become tokens
        ((1, 8, 8, 32), (PLANES, [1, 32, 64], (0, 2, 1)), [Motion.NONE, Motion.VIEW]),
        # ... and tokens pixels
        ((1, 64, 32), ((0, 2, 1), [1, 32, 8, 8], PIXELS), [Motion.NONE, Motion.VIEW]),
        ((1, 1, 64, 32), ([1, 64, 32],), [Motion.VIEW]),
        # vit_sep: heads are cut from the pixels of a map in one piece, from tokens element by element; detr joins them
        ((1, 8, 8, 32), ([1, 64, 2, 16], (0, 2, 1, 3)), [Motion.VIEW, Motion.ROWS]),
        ((1, 1, 64, 32), ([1, 64, 2, 16], (0, 2, 1, 3)), [Motion.ELEMENTS, Motion.ROWS]),
        ((16, 2, 16), ([1, 1, 16, 32],), [Motion.VIEW]),
        # asked (columns): tokens one below the other are cut; heads that a batch holds are joined one by one
        ((17, 1, 192), ([17, 3, 64], (1, 0, 2)), [Motion.COLUMNS, Motion.ROWS]),
        ((1, 17, 1, 96), ([1, 17, 1, 3, 32], (3, 1, 2, 0, 4)), [Motion.COLUMNS, Motion.NONE]),
        ((17, 1, 3, 64), ([1, 1, 17, 192],), [Motion.JOINED]),
        # min_window: rows are cut; swin: they stay whole in more than four dimensions
        ((1, 4, 16, 48), ([4, 16, 3, 2, 8],), [Motion.ELEMENTS]),
        ((1, 8, 8, 16), ([1, 2, 4, 2, 4, 16],), [Motion.VIEW]),
        ((4, 2, 16, 8), ([1, 4, 2, 16, 8],), [Motion.VIEW]),
        # vgg, min_reset: a map is flattened; fpn_retina_gn: group normalisation and back
        ((1, 8, 8, 16), (PLANES, [1, 1, 1, 1024]), [Motion.ELEMENTS]),
        ((1, 4, 1024), ([1, 16, 16, 16], PIXELS), [Motion.ELEMENTS]),
        # sknet: rows stay as long as they are
        ((1, 24, 24, 16), (PLANES, [1, 1, 16, 24, 24]), [Motion.ROWS]),
        # asked (two networks of seed 4129): what enters in five dimensions becomes a map
        ((1, 2, 3, 24, 24), ([1, 6, 24, 24], PIXELS), [Motion.VIEW]),
        # yolo11, yolov8_decode: pixels of one channel become a row, rows of each channel a longer one
        ((1, 2, 336, 1), ([1, 2, 336],), [Motion.ELEMENTS]),
        ((1, 16, 16, 3), (PLANES, [1, 3, 256]), [Motion.VIEW]),
        # asked (flattened_0): rows of each channel are joined, whether or not a dimension of size 1 follows
        ((1, 16, 16, 3), (PLANES, [1, 3, 256, 1]), [Motion.VIEW]),
        # asked (network_2): the channels of each pixel become a row of pixels of one channel
        ((1, 8, 8, 72), (PLANES, [1, 1, 72, 64], (0, 3, 2, 1)), [Motion.NONE, Motion.ELEMENTS]),
        # asked (edgenext): queries, keys and values over channels; yolo11: rows of heads become a map
        ((1, 8, 8, 48), ([1, 64, 3, 2, 8], (2, 0, 3, 4, 1)), [Motion.TURNED, Motion.NONE]),
        ((1, 16, 16, 2), (PLANES, [1, 32, 4, 4], PIXELS), [Motion.SPREAD]),
        # asked (efficientformerv2): products and transpositions read joined rows of a map
        ((1, 4, 4, 64), (PLANES, [1, 2, 32, 16], (0, 1, 3, 2)), [Motion.LAID, Motion.ROWS]),
        # vit_timm: queries, keys and values; swin: windows
        ((1, 65, 96), ([1, 65, 3, 2, 16], (2, 0, 3, 1, 4)), [Motion.ELEMENTS, Motion.ELEMENTS]),
        ((1, 2, 4, 2, 4, 16), ((0, 1, 3, 2, 4, 5),), [Motion.PIXELS]),
        # a detector's head: channels of each anchor go last, which is a change of layout
        ((1, 3, 8, 4, 4), ((0, 1, 3, 4, 2),), [Motion.ROWS]),
        ((1, 1, 5, 1, 7), ((1, 0, 2, 3, 4),), [Motion.VIEW]),
    ],
)
def test_each_kind_of_move(shape: tuple[int, ...], steps: tuple[Step, ...], expected: list[Motion]) -> None:
    assert motions(shape, *steps) == expected


def test_what_several_nodes_read_is_in_its_order_there() -> None:
    """The flattened map is wanted as it is by one reader, so that it is moved though another turns it back."""
    nodes = chain((1, 8, 8, 32), PLANES, [1, 32, 64], (0, 2, 1))
    flat = nodes[1].outputs[0]
    nodes.append(ir.node("HzLut", [flat], outputs=[tensor("z", (1, 32, 64))], domain="horizon"))
    assert list(motions_of(nodes).values()) == [Motion.VIEW, Motion.ROWS]


def test_maps_that_are_stored_as_planes_are_stored_in_any_shape() -> None:
    """yolo11, yolov8_decode, detr: the flattened map leaves the subgraph, so that its last reader is not inside."""
    flattened = chain((1, 16, 16, 3), PLANES, [1, 3, 256])
    assert list(motions_of(flattened).values()) == [Motion.VIEW]
    assert list(motions_of(flattened[:-1]).values()) == [Motion.NONE]
    turned = chain((1, 16, 16, 3), PLANES, [1, 3, 256], (1, 0, 2))
    assert list(motions_of(turned[:-1]).values())[-1] is Motion.VIEW


def test_heads_that_products_alone_read_are_taken_one_after_the_other() -> None:
    """Asked: queries and values are cut in 3 us, keys, which are turned besides, in 153 us (headed_2)."""

    def found(op_type: str, *perm: int) -> list[Motion]:
        *nodes, last = chain((1, 1, 64, 32), [1, 64, 2, 16], perm)
        last.replace_input_with(0, None)
        operands = [nodes[-1].outputs[0], tensor("other", (1, 2, 16, 64))]
        nodes.append(ir.node(op_type, operands, outputs=[tensor("y", (1, 2, 64, 64))], domain="horizon"))
        return list(motions_of(nodes).values())

    assert found("HzSQuantizedMatmul", 0, 2, 1, 3) == [Motion.HEADS, Motion.NONE]
    assert found("HzSQuantizedMatmul", *PIXELS) == [Motion.ELEMENTS]
    assert found("HzSElementwiseAdd", 0, 2, 1, 3) == [Motion.ELEMENTS, Motion.ROWS]


@pytest.mark.parametrize(
    ("shape", "steps", "expected"),
    [
        ((1, 1, 6, 6), (PIXELS,), {(0,)}),  # scores of attention become a map of one channel
        ((1, 8, 8, 32), (PLANES, [1, 32, 64], (0, 2, 1)), set()),  # no layout change is read
        ((1, 64, 32), ((0, 2, 1), [1, 32, 8, 8], PIXELS), set()),  # all is in place again
        ((1, 8, 8, 32), (PLANES,), {(0,)}),
    ],
)
def test_what_is_read_in_another_layout_is_known(
    shape: tuple[int, ...], steps: tuple[Step, ...], expected: set[tuple[int, ...]]
) -> None:
    nodes = chain(shape, *steps)
    made = ir.node("HzLut", [tensor("before", shape)], outputs=[nodes[0].inputs[0]], domain="horizon")
    assert set(rearranged_inputs([made, *nodes]).values()) == expected


def test_what_enters_is_rearranged_at_the_border() -> None:
    assert not rearranged_inputs(chain((1, 8, 8, 32), PLANES))


def test_other_nodes_move_nothing() -> None:
    assert motions((1, 8, 8, 32)) == []


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_merged_permutations_move_the_same_elements(shape: list[int], random: object) -> None:
    perm = tuple(np.random.default_rng(random.getrandbits(32)).permutation(len(shape)))  # type: ignore[attr-defined]
    merged = merged_permutation(shape, perm)
    moved = np.arange(np.prod(shape)).reshape(shape).transpose(perm).ravel()
    assert sorted(merged) == list(range(len(merged)))
    assert all(after != before + 1 for before, after in pairwise(merged))
    assert (len(merged) <= 1) == bool((np.diff(moved) == 1).all())


@given(st.permutations(range(4)), st.tuples(*[st.integers(1, 5)] * 4))
def test_a_transposition_and_its_inverse_leave_everything_in_place(perm: list[int], shape: tuple[int, ...]) -> None:
    inverse = tuple(int(axis) for axis in np.argsort(perm))
    found = motions(shape, tuple(perm), inverse)
    assert not {Motion.ROWS, Motion.ELEMENTS} & set(found[-1:])
