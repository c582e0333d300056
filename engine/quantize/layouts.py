"""Layout transposes of a quantised graph that cancel against others."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from engine.graph import sole_reader, used_once
from engine.ir import HORIZON_DOMAIN, attribute, constant_of, shape_of
from engine.ops.core.float_nodes import TO_NHWC
from engine.optimize.base import bypass
from engine.rulebook.name import TO_NCHW_MARK, TO_NHWC_MARK, NamedPart, NameSite, Naming

TO_NCHW = (0, 3, 1, 2)
"""Permutation from NHWC."""

CHANNELS_LAST = 3
"""Channel axis of an NHWC tensor."""


def simplify_layouts(graph: ir.Graph, names: Naming) -> None:
    """Merge transposes and reshapes that follow one another, in place.

    A tensor is given the float graph's layout where it is made, not before its first reader (``sknet``, ``yolo11``).
    First, two transposes in a row become one under the second's name, or none where they cancel. Then two around an
    ``HzDequantize`` that cancel leave it with its channels on axis 3. A transpose beside a Reshape that only moves axes
    of length 1 is a Reshape too, since the order of elements stays; two around a Reshape of integers that keeps batch
    and channels become part of it. One of a single number changes nothing. Two reshapes of integers in a row become one
    under the first's name, with the second's shape and result. One that changes no shape goes (none is left in 729
    recorded files). Last, a Reshape goes if all that reads it is Reshapes back to the shape before it (states of a GRU
    on bernoulli2, 4 of 4; not where one has another shape, 6).
    """
    for node in list(graph):
        if _is(node, "Transpose") and TO_NCHW_MARK in str(node.name):
            _move_to_producer(graph, node)
    for node in list(graph):
        if _is(node, "Transpose") and _cancels(_input(node).producer(), node):
            _merge_transposes(graph, node)
    for node in list(graph):
        if _is(node, "Transpose") and _is(_input(node).producer(), "Transpose"):
            _merge_transposes(graph, node)
    for node in list(graph):
        if node.graph is not graph:
            continue
        if _is(node, "Transpose"):
            _merge_with_producer(graph, node, names)
            if node.graph is graph and _changes_nothing(node):
                _bypass_unshared(node)
        elif _is(node, "Reshape"):
            _absorb_pixel_transpose(graph, node, names)
    for node in list(graph):
        if _is(node, "Reshape"):
            _merge_reshapes(graph, node)
    for node in list(graph):
        if _is(node, "Reshape") and node.graph is graph and shape_of(_input(node)) == shape_of(node.outputs[0]):
            _bypass_unshared(node)
    for node in list(graph):
        if _is(node, "Reshape") and node.graph is graph:
            _drop_there_and_back(graph, node)


def _drop_there_and_back(graph: ir.Graph, node: ir.Node) -> None:
    result, before = node.outputs[0], shape_of(_input(node))
    readers = [usage.node for usage in result.uses()]
    if not readers or result.is_graph_output():
        return
    if all(_is(each, "Reshape") and not each.outputs[0].is_graph_output() for each in readers) and all(
        shape_of(each.outputs[0]) == before for each in readers
    ):
        for each in readers:
            each.replace_input_with(0, _input(node))
            bypass(each)
        graph.remove(node, safe=True)


def _move_to_producer(graph: ir.Graph, node: ir.Node) -> None:
    """Let ``node`` stand behind the node that computes what it reads, and behind what does this for later parts.

    Behind a Split all that leaves it stands from the last part to the first (nine on bernoulli2).
    """
    producer = _input(node).producer()
    if producer is None:
        return
    graph.remove(node)
    place, later = producer, set(producer.outputs[producer.outputs.index(_input(node)) + 1 :])
    nodes = list(graph) if later else []
    for following in nodes[nodes.index(producer) + 1 :] if nodes else ():
        if not _leaves(following) or _input(following) not in later:
            break
        place = following
        later.update(following.outputs)
    graph.insert_after(place, node)


def _leaves(node: ir.Node) -> bool:
    """Whether ``node`` changes the layout of what a node gives, or dequantises it."""
    is_layout = _is(node, "Transpose") and TO_NCHW_MARK in str(node.name)
    return is_layout or _is(node, "HzDequantize", HORIZON_DOMAIN)


def _cancels(before: ir.Node | None, node: ir.Node) -> bool:
    """Whether ``node`` undoes the transpose ``before``."""
    return before is not None and _is(before, "Transpose") and _is_identity(_composed(_perm(before), _perm(node)))


def _merge_transposes(graph: ir.Graph, node: ir.Node) -> None:
    producer = _input(node).producer()
    if producer is None:
        return
    perm = _composed(_perm(producer), _perm(node))
    node.attributes["perm"] = ir.AttrInt64s("perm", perm)
    node.replace_input_with(0, _input(producer))
    _remove_unread(graph, producer)
    if _is_identity(perm):
        _bypass_unshared(node)


def _merge_reshapes(graph: ir.Graph, node: ir.Node) -> None:
    source = _input(node)
    first = source.producer()
    if first is None or not _is(first, "Reshape") or not used_once(source) or source.dtype == ir.DataType.FLOAT:
        return
    target = constant_of(node.inputs[1])
    if target is None or not target.all():  # a 0 would mean an axis of what the first reads
        return
    _reshape_further(graph, first, node)


def _merge_with_producer(graph: ir.Graph, node: ir.Node, names: Naming) -> None:
    source = _input(node)
    producer = source.producer()
    if producer is None:
        return
    if _is(producer, "Transpose"):
        _merge_transposes(graph, node)
    elif _is(producer, "Reshape") and _keeps_order(node):
        _as_reshape(graph, node, names)
    elif _is(producer, "Reshape") and used_once(source):
        _cancel_around_reshape(graph, node, producer, names)
    elif _is(producer, "HzDequantize", HORIZON_DOMAIN) and used_once(source):
        _cancel_around(graph, node, producer)


def _cancel_around(graph: ir.Graph, node: ir.Node, dequantize: ir.Node) -> None:
    """Transpose, HzDequantize, Transpose: only the middle one stays where the others cancel, with the last's result."""
    before = _input(dequantize).producer()
    if before is None or not _is(before, "Transpose"):
        return
    if not _is_identity(_composed(_perm(before), _perm(node))):
        return
    dequantize.replace_input_with(0, _input(before))
    dequantize.attributes["axis"] = ir.AttrInt64("axis", CHANNELS_LAST)
    dequantize.outputs[0].shape = node.outputs[0].shape
    name = node.outputs[0].name
    _remove_unread(graph, before)
    _bypass_unshared(node)
    dequantize.outputs[0].name = name


def _cancel_around_reshape(graph: ir.Graph, node: ir.Node, reshape: ir.Node, names: Naming) -> None:
    """NHWC to NCHW, Reshape that keeps N and C, NCHW to NHWC: on the BPU only the Reshape stays, of H and W.

    Unless they are int16 and the last is a Transpose of the float graph (asked on bayes-e and bayes).

    Exact for every shape: per sample and channel both ways keep the order of the pixels, however H and W cut it.
    """
    source = _input(reshape)
    before = source.producer()
    if before is None or not _is(before, "Transpose") or not used_once(source) or source.dtype == ir.DataType.FLOAT:
        return
    old, new = shape_of(source), shape_of(_input(node))
    stays = source.dtype == ir.DataType.INT16 and TO_NHWC_MARK not in str(node.name)
    if not stays and (_perm(before), _perm(node)) == (TO_NCHW, TO_NHWC) and old[:2] == new[:2]:
        reshape.replace_input_with(0, _input(before))
        _remove_unread(graph, before)
        target = _input(node)
        name = names.of(NameSite(NamedPart.SHAPE, node=str(reshape.name), transpose=str(node.name)))
        _set_shape(graph, reshape, shape_of(node.outputs[0]), name)
        target.shape = node.outputs[0].shape
        _bypass_unshared(node)


def _absorb_pixel_transpose(graph: ir.Graph, node: ir.Node, names: Naming) -> None:
    source = _input(node)
    producer = source.producer()
    if producer is not None and _is(producer, "HzDequantize", HORIZON_DOMAIN) and used_once(source):
        _drop_before_dequantize(graph, producer)
        return
    if producer is None or not _is(producer, "Transpose") or not used_once(source):
        return
    if _keeps_order(producer) and _cancels_into_reader(graph, producer, node, names):
        return
    if _keeps_order(producer):
        node.name = names.of(NameSite(NamedPart.RESHAPES, transpose=str(producer.name)))
        target = constant_of(node.inputs[1])
        if target is None or not target.all():  # a 0 would mean another axis now
            _set_shape(graph, node, shape_of(node.outputs[0]), names.of(NameSite(NamedPart.SHAPE, node=node.name)))
        maker = _input(producer).producer()
        node.replace_input_with(0, _input(producer))
        if maker is not None and len(maker.outputs) == 1:  # those of a Split stay in the order of the float graph
            graph.remove(node)
            graph.insert_after(producer, node)
        graph.remove(producer, safe=True)


def _cancels_into_reader(graph: ir.Graph, transpose: ir.Node, reshape: ir.Node, names: Naming) -> bool:
    """Remove both where the second restores the shape before the first, and make a layout change behind a Reshape.

    As before the last operand of the Concat in ``crnn_gru``.
    """
    result = reshape.outputs[0]
    reader = sole_reader(result, once=True)
    if shape_of(_input(transpose)) != shape_of(result) or not _is(reader, "Transpose") or reader is None:
        return False
    if not _keeps_order(reader):
        return False
    name = names.of(NameSite(NamedPart.RESHAPES, transpose=str(reader.name)))
    old = reader.outputs[0]
    new = ir.Value(name=old.name, type=old.type, shape=old.shape)
    made = ir.node("Reshape", [_input(transpose), reshape.inputs[1]], outputs=[new], name=name)
    ir.convenience.replace_nodes_and_values(graph, reader, [reader], [made], reader.outputs, made.outputs)
    _set_shape(graph, made, shape_of(made.outputs[0]), names.of(NameSite(NamedPart.SHAPE, node=name, replaces=True)))
    graph.remove([reshape, transpose], safe=True)
    return True


def _drop_before_dequantize(graph: ir.Graph, dequantize: ir.Node) -> None:
    """A batch of single pixels, the rows of a matrix product, is dequantised as it lies and then reshaped.

    A single pixel keeps its transpose (golden conversions of ``Gemm``).
    """
    source = _input(dequantize)
    transpose = source.producer()
    if transpose is None or not _is(transpose, "Transpose") or not used_once(source) or not _keeps_order(transpose):
        return
    if shape_of(source)[0] > 1 and _perm(transpose) == TO_NCHW:
        dequantize.replace_input_with(0, _input(transpose))
        dequantize.attributes["axis"] = ir.AttrInt64("axis", CHANNELS_LAST)
        dequantize.outputs[0].shape = _input(transpose).shape
        graph.remove(transpose, safe=True)


def _as_reshape(graph: ir.Graph, node: ir.Node, names: Naming) -> None:
    """Make the transpose ``node`` behind a Reshape one as well, and join the two where nothing else reads the first."""
    name = names.of(NameSite(NamedPart.RESHAPES, transpose=str(node.name)))
    result = node.outputs[0]
    new = ir.Value(name=result.name, type=result.type, shape=result.shape)
    made = ir.node("Reshape", [_input(node)], outputs=[new], name=name)
    ir.convenience.replace_nodes_and_values(graph, node, [node], [made], [result], made.outputs)
    made.resize_inputs(2)
    _set_shape(graph, made, shape_of(new), names.of(NameSite(NamedPart.SHAPE, node=name, replaces=True)))
    first = _input(made).producer()
    if first is not None and used_once(_input(made)):
        _reshape_further(graph, first, made)


def _reshape_further(graph: ir.Graph, first: ir.Node, node: ir.Node) -> None:
    """Let the Reshape ``first`` go straight to the shape of ``node`` behind it, and give its result."""
    source, name = _input(node), node.outputs[0].name
    first.replace_input_with(1, node.inputs[1])
    source.shape = node.outputs[0].shape
    _bypass_unshared(node)
    source.name = name


def _set_shape(graph: ir.Graph, reshape: ir.Node, shape: Sequence[int], name: str) -> None:
    """Give ``reshape`` a constant target of its own."""
    tensor = ir.tensor(shape, dtype=ir.DataType.INT64, name=name)
    value = ir.Value(name=name, type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([len(shape)]), const_value=tensor)
    graph.register_initializer(value)
    reshape.replace_input_with(1, value)


def _perm(transpose: ir.Node) -> tuple[int, ...]:
    """The permutation of ``transpose``; without the attribute, axes are reversed."""
    return tuple(attribute(transpose, "perm", range(len(shape_of(_input(transpose))))[::-1]))


def _keeps_order(transpose: ir.Node) -> bool:
    """Whether a transpose only moves axes of length 1, so that the order of elements stays."""
    shape = shape_of(_input(transpose))
    moved = [axis for axis in _perm(transpose) if shape[axis] != 1]
    return moved == sorted(moved)


def _changes_nothing(transpose: ir.Node) -> bool:
    return _keeps_order(transpose) and shape_of(_input(transpose)) == shape_of(transpose.outputs[0])


def _is(node: ir.Node | None, op_type: str, domain: str = "") -> bool:
    return node is not None and node.op_type == op_type and node.domain == domain


def _input(node: ir.Node) -> ir.Value:
    value = node.inputs[0]
    if value is None:
        raise ValueError(f"node {node.name} ({node.op_type}) has no input")
    return value


def _composed(first: Sequence[int], second: Sequence[int]) -> list[int]:
    return [first[axis] for axis in second]


def _is_identity(perm: Sequence[int]) -> bool:
    return list(perm) == list(range(len(perm)))


def _remove_unread(graph: ir.Graph, node: ir.Node) -> None:
    if not any(value.is_graph_output() or list(value.uses()) for value in node.outputs):
        graph.remove(node, safe=True)


def _bypass_unshared(node: ir.Node) -> None:
    """As :func:`engine.optimize.base.bypass`, but what others read too does not take over the name of an output."""
    if not node.outputs[0].is_graph_output() or used_once(_input(node)):
        bypass(node)
