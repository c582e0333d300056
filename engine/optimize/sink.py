"""Reshapes and transposes move behind the arithmetic on what they rearrange.

There they meet others that undo them, and the arithmetic runs on the tensor that a convolution made. The original does
this everywhere, whether anything is undone in the end or not: tensors named ``<y>_transpose``, ``<y>_reshape`` and
``<y>_transpose_reshape`` in all 15 networks with arithmetic behind a movement. What has become a depthwise convolution
lets nothing pass: a factor per channel of a map that an earlier round left
(:func:`engine.optimize.affine_apart.mark_factors`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence

import numpy as np
import onnx_ir as ir

from engine.ir import MARK_CONVOLUTION, attribute, own_name, static_shape
from engine.optimize.affine import becomes_depthwise
from engine.optimize.affine_previous import takes_in_next
from engine.optimize.base import (
    ELEMENTWISE,
    Array,
    add_initializer,
    axes_of,
    graph_of,
    initializer_of,
    is_standard,
    make_node,
    substitute,
)
from engine.optimize.contract import GraphPass
from engine.optimize.dense import MARK_PRODUCT, SCORES, joins_product
from engine.optimize.reshaping import (
    MAP_RANK,
    Correspondence,
    Shape,
    drops_or_appends_ones,
    finds_its_place,
    joins_or_divides,
    joins_or_divides_pixels,
)

REDUCTIONS = frozenset({"ReduceMean", "ReduceSum", "ReduceMax"})
BEHIND_MOVEMENTS = frozenset({"Abs", "Exp", "ReduceMax", "ReduceSum"})
"""Arithmetic that no Transpose and no Reshape passes.

Of six Reshapes each passed a ReduceMean, where it could, and no ReduceMax; ``ReduceSum`` stays behind in 4 of 4 asked
on bernoulli2 and 1 on bayes-e, and behind Transposes (12 of 12, norms of tokens and heads among them); a ReduceMax
beside a ReduceMean of the same tokens too (published log of YOLOv13n, twice). Of the functions Exp and Abs alone: each
of 35 was asked behind a Transpose and three Reshapes on bayes-e, of which 15 let all four pass.
"""
RECIPROCALS = frozenset({"HzRsqrt", "Reciprocal"})


class Sink(GraphPass):
    """Visits the arithmetic in order, so that a movement passes a whole chain of it at once."""

    moves: str
    """Operator type of the movement."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified, nodes = False, tuple(model.graph)
        earlier = frozenset(nodes)
        for node in nodes:
            if node.graph is not None and len(node.outputs) == 1 and self.passes(node):
                modified |= self.rewrite(node, earlier)
        return ir.passes.PassResult(model, modified)

    def passes(self, node: ir.Node) -> bool:
        """Whether the movement passes operators of the kind of ``node``."""
        return node.op_type in (ELEMENTWISE | REDUCTIONS) - BEHIND_MOVEMENTS

    def passes_on(self, node: ir.Node, passed: ir.Node) -> bool:
        """Whether a movement that has just passed the operator ``passed`` passes ``node`` as well."""
        return True

    def rewrite(self, node: ir.Node, earlier: Collection[ir.Node]) -> bool:
        """Move what produces all computed inputs of ``node`` behind it; whether that is possible.

        Args:
            node: arithmetic.
            earlier: nodes that this pass has not moved.
        """
        movements = [movement_to(value, self.moves) for value in node.inputs if value is not None and not _fixed(value)]
        found = [movement for movement in movements if movement is not None]
        if not found or len(found) != len(movements) or static_shape(node.outputs[0]) is None:
            return False
        if becomes_depthwise(node) and not self.passes_factor(node, found):
            return False
        passed = [_producer_of(movement) for movement in found if movement not in earlier]
        if not all(each is None or self.passes_on(node, each) for each in passed):
            return False
        return self.sink(node, found)

    def passes_factor(self, node: ir.Node, movements: Sequence[ir.Node]) -> bool:
        """Whether ``movements`` pass the factor per channel of a map ``node``: no convolution yet.

        It is one already where a constant in front of a map makes scores (36 of 36 asked on three marches, ``detr``,
        two drawn decoders), not of rows in three dimensions (24 of 24).
        """
        makers = [_producer_of(movement) for movement in movements]
        of_scores = any(each is not None and each.metadata_props.get(MARK_PRODUCT) == SCORES for each in makers)
        return MARK_CONVOLUTION not in node.metadata_props and not of_scores

    @abstractmethod
    def sink(self, node: ir.Node, movements: Sequence[ir.Node]) -> bool:
        """Move ``movements``, one for each computed input of ``node``; whether they can pass it."""


class SinkTranspose(Sink):
    """A ``Transpose`` moves behind arithmetic all of whose computed operands it orders alike.

    The arithmetic's result is called ``<y>_transpose``, a constant ``<node><constant>_transposed_input``, the moved
    node ``<node>_<y>_Transpose``.
    """

    moves = "Transpose"

    def passes(self, node: ir.Node) -> bool:
        """Not a mean over several axes (rows and columns of channels last, kept at 1, 3 of 3 asked)."""
        if node.op_type == "ReduceMean":
            rank = len(static_shape(node.inputs[0]) or ())
            if rank and len(axes_of(node, rank) or ()) > 1:
                return False
        return super().passes(node)

    def passes_on(self, node: ir.Node, passed: ir.Node) -> bool:
        """Not what becomes part of a product once it has passed the quotient of a normalisation.

        Scale and shift are part of the product by then, as names of ``ConvNeXt`` and ``SwinTransformer`` of torchvision
        say; those right behind a Transpose it passes.
        """
        return not (_is_quotient(passed) and joins_product(node))

    def sink(self, node: ir.Node, movements: Sequence[ir.Node]) -> bool:
        perms = {tuple(attribute(movement, "perm", ())) for movement in movements}
        shape = static_shape(node.outputs[0]) or ()
        perm = perms.pop()
        if perms or len(perm) != len(shape) or _changes_rank(node, len(shape)) or _has_map_of_constants(node):
            return False
        inverse = tuple(int(axis) for axis in np.argsort(perm))
        arrays = {index: _aligned(array, len(shape)).transpose(inverse) for index, array in _operands(node).items()}
        axes = _axes(node, len(shape))
        result = node.outputs[0]
        moved = _rebuilt(
            node,
            arrays,
            suffix="transposed_input",
            output=f"{result.name}_transpose",
            shape=tuple(shape[axis] for axis in inverse),
            axes=None if axes is None else sorted(perm[axis] for axis in axes),
        )
        put_in_place(node, [moved, transpose_behind(node, moved, perm)], movements)
        return True


def transpose_behind(node: ir.Node, moved: ir.Node, perm: Sequence[int]) -> ir.Node:
    """The ``Transpose`` of what ``moved`` gives that takes the place of the result of ``node``."""
    result = node.outputs[0]
    return make_node(
        "Transpose",
        [moved.outputs[0]],
        name=f"{node.name}_{result.name}_Transpose",
        output=f"{node.name}_{result.name}_transposed",
        like=result,
        attributes={"perm": list(perm)},
    )


def _has_map_of_constants(node: ir.Node) -> bool:
    """Whether a constant operand of a sum or product of four and more dimensions has three axes longer than 1.

    4 of 4 maps of numbers stay, and so do 9 of 9 positions and rows of windows in six dimensions (NesT); constants with
    fewer such axes, or of three dimensions, move (36 of 36 on bayes-e).
    """
    many = [array for array in _operands(node).values() if sum(size > 1 for size in array.shape) > 2]
    return node.op_type in ("Add", "Mul") and len(static_shape(node.outputs[0]) or ()) >= MAP_RANK and bool(many)


def _producer_of(movement: ir.Node) -> ir.Node | None:
    value = movement.inputs[0]
    return None if value is None else value.producer()


def _is_quotient(node: ir.Node) -> bool:
    """Whether ``node`` multiplies by a reciprocal."""
    factors = [value.producer() for value in node.inputs if value is not None]
    return node.op_type == "Mul" and any(each is not None and each.op_type in RECIPROCALS for each in factors)


class SinkReshape(Sink):
    """A ``Reshape`` moves behind arithmetic all of whose computed operands it reshapes alike.

    Operands may broadcast, and reductions may run, along axes that it keeps whole. One that keeps the number of
    dimensions passes arithmetic of a single tensor only (of a second tensor or a constant along its axes 6 of 6 asked
    stay; of fewer dimensions 2 of 2 pass), and a mean only where it joins or divides axes
    (:func:`joins_or_divides`). One that changes it passes functions of one operand; other arithmetic where the
    original finds what is joined (:func:`finds_its_place`). The arithmetic's result is called ``<y>_reshape``, a
    constant ``<node>_<constant>_reshape``, the moved node ``<node><y>_Reshape_0``.
    """

    moves = "Reshape"

    def passes_factor(self, node: ir.Node, movements: Sequence[ir.Node]) -> bool:
        """Not of what a ``Gather`` of one element left (``swin``); one number also later, behind a single row.

        That is the row of a ``Gemm``, which two Reshapes take from the channels to the last axis: gates of LeViT.
        """
        sources = [movement.inputs[0] for movement in movements]
        gathered = any(value is not None and is_standard(value.producer(), "Gather") for value in sources)
        return not gathered and super().passes_factor(node, movements)

    def passes(self, node: ir.Node) -> bool:
        """Also a ``Slice`` where axes of length 1 are dropped or appended; products if batch and channels stay.

        Measured in ``yolov8_decode`` and ``yolo11``, and in ``min_ln``, ``vit_sep`` and ``detr``. Not the ``Slice`` of
        tokens that became a batch (published log of YOLOv13n, 8 times). Of other 1x1 convolutions those of one group
        and step 1, of a map whose pixels become a line, or of a line that becomes a map: 9 of 9 asked, and not of 9
        with other shapes, ranks, windows, steps or groups (bayes-e; 2 on each other march). What becomes part of a
        convolution does so before (56 of 56 sums behind products of four dimensions).
        """
        if is_standard(node, "PRelu"):
            return _is_slope_per_number(node)
        if MARK_PRODUCT not in node.metadata_props and not _is_pointwise(node):
            return super().passes(node) or is_standard(node, "Slice")
        reshape = node.inputs[0].producer() if node.inputs[0] is not None else None
        if not is_standard(reshape, "Reshape") or reshape is None or takes_in_next(node):
            return False
        before, after = static_shape(reshape.inputs[0]), static_shape(reshape.outputs[0])
        if before is None or after is None or len(before) != len(after) or before[:2] != after[:2]:
            return False
        return joins_or_divides_pixels(before, after)

    def sink(self, node: ir.Node, movements: Sequence[ir.Node]) -> bool:
        if any(is_standard(_producer_of(movement), "Gemm") for movement in movements):
            return False  # until it is a convolution: what is added behind the Reshape is part of that (4 of 4 asked)
        after = static_shape(node.outputs[0]) or ()
        pairs = [(static_shape(m.inputs[0]), static_shape(m.outputs[0])) for m in movements]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        if len(known) != len(pairs) or len({len(a) for a, _ in known}) != 1 or _changes_rank(node, len(after)):
            return False
        if any(len(b) != len(after) for _, b in known):
            return False
        before, whole = max(known, key=lambda pair: int(np.prod(pair[1])))
        if node.op_type == "PRelu":
            self._move(node, movements, {1: _operands(node)[1].reshape(before)}, before)
            return True
        kept = Correspondence.between(before, whole)
        if kept is None or any(not kept.holds(a, b) for a, b in known):
            return False
        if node.op_type == "Slice":
            if not drops_or_appends_ones(before, whole):
                return False
            return _sink_slice(node, movements[0], kept)
        if len(before) != len(whole) and not _is_function(node) and not finds_its_place(known):
            return False
        tensors = len(movements) + sum(array.size > 1 for array in _operands(node).values())
        axes = _axes(node, len(after))
        if len(before) == len(after) and (tensors > 1 or not _passes_whole(node, before, whole)):
            return False
        arrays: dict[int, Array] = {}
        for index, array in _operands(node).items():
            shape = kept.source_of(_aligned(array, len(after)).shape)
            if shape is None:
                return False
            arrays[index] = array.reshape(shape)
        inner = None if axes is None else kept.axes(axes)
        if axes is not None and inner is None:
            return False
        shape = tuple(1 if inner is not None and axis in inner else size for axis, size in enumerate(before))
        shape = (*shape[:1], after[1], *shape[2:]) if node.op_type == "Conv" else shape
        self._move(node, movements, arrays, shape, inner)
        return True

    @staticmethod
    def _move(
        node: ir.Node,
        movements: Sequence[ir.Node],
        arrays: dict[int, Array],
        shape: Shape,
        axes: list[int] | None = None,
    ) -> None:
        """Put ``node``, which gives ``shape`` then, in front of ``movements``."""
        name = f"{node.outputs[0].name}_reshape"
        moved = _rebuilt(node, arrays, suffix="reshape", output=name, shape=shape, axes=axes)
        put_in_place(node, [moved, reshape_behind(node, moved)], movements)


def _is_slope_per_number(node: ir.Node) -> bool:
    """Whether ``node``, a ``PRelu``, reads a single row and has a slope for each of its numbers.

    A Reshape passes it wherever the row lies, then (114 of 114 branches on three marches; heads of O-Net), also where
    it keeps the number of dimensions, which it does of no sum or product. It passes none of one slope, of a line or of
    a map, which the same networks asked.
    """
    slope, shape = initializer_of(node.inputs[1]), static_shape(node.inputs[0])
    return slope is not None and shape is not None and slope.size == max(shape, default=0) == int(np.prod(shape)) > 1


def _is_function(node: ir.Node) -> bool:
    """Whether ``node`` computes each number from one; limits and exponents are no operands."""
    operands = [value for value in node.inputs if value is not None]
    return node.op_type not in REDUCTIONS and (node.op_type in ("Clip", "Pow") or len(operands) == 1)


def _passes_whole(node: ir.Node, before: Shape, after: Shape) -> bool:
    """Whether a Reshape of ``before`` to ``after``, of as many dimensions, passes ``node``, its only reader."""
    return joins_or_divides(before, after) if node.op_type in REDUCTIONS else _passes_in_rank(node, before, after)


def _passes_in_rank(node: ir.Node, before: Shape, after: Shape) -> bool:
    """Whether a Reshape that keeps the number of dimensions passes ``node``, which reads nothing else computed.

    Functions it passes, and everything behind a single row. Arithmetic with a number it passes where a map becomes a
    row of pixels or a batch, unless it ends in an axis of length 1 or the channels are the batch; a sum always but of
    one channel, a maximum never (behind 34 Reshapes of a map of 12 x 8 x 8 on bayes-e, 10 on each other march).
    """
    is_sum = node.op_type == "Add" or (node.op_type == "Sub" and initializer_of(node.inputs[1]) is not None)
    is_row = sum(size > 1 for size in before) <= 1
    if is_sum and before[1:2] == (1,):
        return (*before[:2], 1) == after[:3]
    if _is_function(node) or is_sum or node.op_type == "Conv" or is_row:
        return True
    if [size for size in before if size > 1] == [size for size in after if size > 1]:
        return False
    if before[0] != 1:
        return True
    becomes_row = (*before[:2], 1) == after[:3]
    becomes_batch = after[0] != 1 and after[-1] != 1 and after[0] != before[1]
    return node.op_type != "Max" and (becomes_row or becomes_batch)


def _is_pointwise(node: ir.Node) -> bool:
    """Whether ``node`` is a convolution of single pixels of a map that keeps their number."""
    shapes = [static_shape(value) for value in (node.inputs[0], *node.outputs[:1])] if is_standard(node, "Conv") else []
    weight = static_shape(node.inputs[1]) if shapes else None
    if weight is None or weight[2:] != (1, 1) or attribute(node, "group", 1) != 1 or None in shapes:
        return False
    before, after = (shape for shape in shapes if shape is not None)
    return before[2:] == after[2:]


def _sink_slice(node: ir.Node, movement: ir.Node, kept: Correspondence) -> bool:
    """Move the reshape ``movement`` behind a ``Slice`` along axes that it keeps whole."""
    given = [initializer_of(value) for value in node.inputs[1:4]]
    if len(given) < _SLICE_WITH_AXES or any(array is None for array in given):
        return False
    result, graph = node.outputs[0], graph_of(node)
    after = static_shape(result) or ()
    axes = [int(axis) % len(after) for axis in given[2]] if given[2] is not None else []
    inner = [kept.axes([axis]) for axis in axes]
    if any(found is None for found in inner):
        return False
    moved_axes = [found[0] for found in inner if found is not None]
    sizes = dict(zip(moved_axes, (after[axis] for axis in axes), strict=True))
    axes_value = node.inputs[3]
    name = f"{node.name}_{'' if axes_value is None else own_name(node, axes_value)}_new_axes"
    inputs = [movement.inputs[0], *node.inputs[1:3], add_initializer(graph, name, np.asarray(moved_axes, np.int64))]
    moved = make_node(
        "Slice",
        [*inputs, *node.inputs[4:]],
        name=str(node.name),
        output=f"{result.name}_reshape",
        like=movement.inputs[0],
        shape=tuple(sizes.get(axis, size) for axis, size in enumerate(kept.before)),
    )
    put_in_place(node, [moved, reshape_behind(node, moved)], [movement])
    return True


_SLICE_WITH_AXES = 3


def reshape_behind(node: ir.Node, moved: ir.Node) -> ir.Node:
    """The ``Reshape`` from what ``moved`` computes to the shape that ``node`` gave."""
    return reshaped(node, moved.outputs[0], node.outputs[0])


def reshaped(node: ir.Node, source: ir.Value, result: ir.Value, index: int = 0) -> ir.Node:
    """The ``Reshape`` of ``source`` to what stands for ``result`` of ``node``, its output ``index``."""
    after = np.asarray(static_shape(result) or (), np.int64)
    name = f"{node.name}{result.name}_Reshape_{index}"
    target = add_initializer(graph_of(node), f"{name}_shape", after)
    return make_node(
        "Reshape",
        [source, target],
        name=name,
        output=f"{node.name}{result.name}_reshaped",
        like=result,
    )


def movement_to(value: ir.Value, op_type: str) -> ir.Node | None:
    """The movement that computes ``value``, with a constant shape or a written permutation."""
    producer = value.producer()
    if producer is None or not is_standard(producer, op_type) or static_shape(producer.inputs[0]) is None:
        return None
    if op_type == "Reshape":
        return producer if initializer_of(producer.inputs[1]) is not None else None
    return producer if attribute(producer, "perm") is not None else None


def _fixed(value: ir.Value) -> bool:
    return initializer_of(value) is not None


def _operands(node: ir.Node) -> dict[int, Array]:
    """Constant operands of element-wise arithmetic that hold more than one number."""
    if node.op_type in REDUCTIONS or node.op_type == "Conv":
        return {}
    arrays = {index: initializer_of(value) for index, value in enumerate(node.inputs)}
    return {index: array for index, array in arrays.items() if array is not None and (array.size > 1 or array.ndim > 1)}


def _aligned(array: Array, rank: int) -> Array:
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


def _axes(node: ir.Node, rank: int) -> list[int] | None:
    """Axes that ``node`` reduces; ``None`` for element-wise arithmetic."""
    return list(axes_of(node, rank) or ()) if node.op_type in REDUCTIONS else None


def _changes_rank(node: ir.Node, rank: int) -> bool:
    """Whether ``node`` drops axes, names none, or reads a constant of more dimensions than ``rank``."""
    if node.op_type in REDUCTIONS:
        return not attribute(node, "keepdims", 1) or not axes_of(node, rank)
    return any(array.ndim > rank for array in _operands(node).values())


def _rebuilt(
    node: ir.Node, arrays: dict[int, Array], *, suffix: str, output: str, shape: Shape, axes: list[int] | None
) -> ir.Node:
    """``node`` on what its movements read, with rearranged constants and axes."""
    graph = graph_of(node)
    inputs: list[ir.Value | None] = []
    for index, value in enumerate(node.inputs):
        if index in arrays and value is not None:
            joint = "" if suffix == "transposed_input" else "_"
            inputs.append(add_initializer(graph, f"{node.name}{joint}{value.name}_{suffix}", arrays[index]))
        elif value is None or _fixed(value):
            inputs.append(value)
        else:
            producer = value.producer()
            inputs.append(None if producer is None else producer.inputs[0])
    source = next(value for value in inputs if value is not None and not _fixed(value))
    moved = make_node(
        node.op_type, inputs, name=str(node.name), output=output, like=source, shape=shape, domain=node.domain
    )
    moved.metadata_props.update(node.metadata_props)
    for name, attr in node.attributes.items():
        moved.attributes[name] = attr
    if axes is not None and "axes" in moved.attributes:
        moved.attributes["axes"] = ir.AttrInt64s("axes", axes)
    elif axes is not None:
        moved.replace_input_with(1, add_initializer(graph, f"{node.name}_axes", np.asarray(axes, np.int64)))
    return moved


def put_in_place(node: ir.Node, parts: Sequence[ir.Node], movements: Sequence[ir.Node]) -> None:
    """Put ``parts`` in the place of ``node`` and drop movements that nothing reads any more."""
    graph = graph_of(node)
    substitute(node, parts)
    for movement in dict.fromkeys(movements):
        if not movement.outputs[0].uses() and not movement.outputs[0].is_graph_output():
            graph.remove(movement, safe=True)
