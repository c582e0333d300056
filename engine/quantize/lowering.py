"""The walk from a calibrated graph to integers: rules emit operators, this keeps layouts, scales and float borders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from engine.chips import Chip, load_chip
from engine.errors import ModelError, UnsupportedError
from engine.facts.chains import chains
from engine.facts.devices import on_bpu
from engine.facts.moves import WAITING, is_passive, keeps_scale
from engine.ir import (
    HORIZON_DOMAIN,
    MARK_FLOATS,
    MARK_ON,
    UNSIGNED,
    Calibration,
    before_calibration,
    calibration_of,
    constant_of,
    is_calibration,
    mark,
    shape_of,
)
from engine.ops.core.base import Quantized
from engine.ops.core.float_nodes import TO_NHWC, given
from engine.ops.pad import zero_padding
from engine.ops.registry import OPERATORS, STANDARD_OPERATORS, rule_for
from engine.place import place_recorded
from engine.place.sums import sums_as_convolutions
from engine.quantize.inputs import data_format, pixel_input
from engine.quantize.layouts import CHANNELS_LAST, TO_NCHW, simplify_layouts
from engine.quantize.rescaling import constant_integers, is_like, requantize, rescale
from engine.quantize.scales import calibration_before, calibration_behind, own_calibration
from engine.quantize.writer import DTYPES, GraphWriter, transposed
from engine.rulebook.calibrated import REDUCTIONS
from engine.rulebook.marks import note
from engine.rulebook.name import NamedPart, NameSite, Naming
from engine.terms import Device

SUM_INPUT = 4
"""Position of the summed operand of a convolution, behind its bias."""


@dataclass(frozen=True)
class Reader:
    """An input of a quantised node."""

    node: str
    index: int


def quantize(calibrated: ir.Model, march: str, names: Naming | None = None) -> ir.Model:
    """Lower ``calibrated`` to the BPU's integer arithmetic.

    Args:
        calibrated: a model from :func:`engine.calibrate.calibrate`, or a ``*_calibrated_model.onnx`` of the original
            toolchain (its placement is derived by the same rules). Not changed.
        march: ``bernoulli2``, ``bayes`` or ``bayes-e``.
        names: gives the names, and knows afterwards by which rules; those of the original if there is none.

    Returns:
        A model of the original's format: domain ``horizon``, NHWC between integer operators, int32 tails.

    Raises:
        ModelError: a tensor that a BPU node reads is not calibrated.
        ConfigError: there is no such march.
    """
    rules = load_chip(march)
    names = names or Naming(rules.family)
    source = calibrated.clone()
    place_recorded(source, rules)
    for node in source.graph:
        if MARK_FLOATS in node.metadata_props:
            mark(node, MARK_ON, Device.CPU)
    sums_as_convolutions(source, rules, names)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # scales of 0 and infinite: requantization
        return IntegerGraph(source, rules, names).build()


class IntegerGraph:
    """Builds the quantised graph of one calibrated model; see :class:`engine.ops.core.base.Lowering`."""

    def __init__(self, source: ir.Model, march: Chip, names: Naming) -> None:
        self.march = march
        self._source = source
        self._names = names
        self._writer = GraphWriter(names)
        self._floats: dict[str, ir.Value] = {}
        self._integers: dict[str, dict[str, Quantized]] = {}
        self._requantized: dict[str, dict[str, Quantized]] = {}
        self._scale_names: dict[ir.Value, str] = {}
        self._quantized_ahead: set[ir.Value] = set()
        self._moved: dict[str, list[dict[str, Quantized]]] = {}
        self._chain: Sequence[ir.Node] = ()
        self._float_with_reader: set[ir.Value] = set()

    def build(self) -> ir.Model:
        """Lower every chain, copy every CPU node, in graph order."""
        inputs = [self._graph_input(value) for value in self._source.graph.inputs]
        by_last = {id(chain[-1]): chain for chain in chains(self._source, self.march)}
        for node in self._source.graph:
            for value in node.inputs:
                if value is not None and is_calibration(value.producer()):
                    self._writer.mark(str(value.name))
            if id(node) in by_last:
                self._lower(by_last[id(node)])
                for value in self._in_written_order(node):
                    if _is_twice_calibrated_output(value):
                        self._float_with_reader.add(_last_calibrated(value))
                    elif _has_float_reader(value):
                        self._float(value)
            elif not is_calibration(node) and not on_bpu(node):
                self._copy(node)
        outputs = [self._output(value) for value in self._source.graph.outputs]
        model = self._writer.model(self._source, inputs, outputs, self.march.name)
        simplify_layouts(model.graph, self._names)
        for node in model.graph:
            for rule in self._names.rules(node):
                note(node, rule)
        return model

    def _in_written_order(self, node: ir.Node) -> list[ir.Value]:
        """The outputs of ``node`` as they are dequantised, positions behind values (TopK).

        Of a Split's parts those whose transposes stand outside (:meth:`_turns_outside`) are first and the last of them
        leads; others stand in their own order (15 of three Splits on bayes-e and one of rank 3, eleven on bernoulli2).
        """
        outside = [value for value in node.outputs if self._turns_outside(value, self._integers.get(str(value.name)))]
        inside = [value for value in node.outputs if value not in outside]
        return sorted([*outside[::-1], *inside], key=lambda each: each.dtype != ir.DataType.FLOAT)

    def _turns_outside(self, tensor: ir.Value, forms: Mapping[str, Quantized] | None) -> bool:
        """Whether the march keeps transposes outside and ``forms`` of ``tensor`` are a map with its channels last.

        Not where a BPU node reads it in the float graph's layout, too: both read that then.
        """
        if forms is None or "NHWC" not in forms or not self.march.layout_outside:
            return False
        return not _is_read_in_own_layout(tensor, forms["NHWC"])

    def integer(
        self,
        value: ir.Value,
        layout: str = "NHWC",
        like: Calibration | None = None,
        per_channel: bool = False,
        unsigned: bool = False,
        index: int | None = None,
    ) -> Quantized:
        """The integer form of an activation input; see :meth:`engine.ops.core.base.Lowering.integer`."""
        wanted = like or self._readable(value)
        if wanted is not None and wanted.scales.size > 1 and not per_channel:
            largest = {"thresholds": wanted.thresholds.max(keepdims=True), "scales": wanted.scales.max(keepdims=True)}
            wanted = replace(wanted, **largest)
        tensor, reader = before_calibration(value), self._reader(value, index)
        if wanted is not None and (array := self.constant(tensor)) is not None:
            return self._constant_operand(value, array, wanted, layout, reader)
        name = str(tensor.name)
        forms = self._integers.get(name)
        if wanted is None and (forms is None or name in self._moved):
            forms = self._quantize_ahead(tensor, value, reader, layout)
        elif forms is None and wanted is not None:
            forms = self._quantize_itself(value, wanted, reader, layout)
        if forms is None:
            raise ModelError(f"tensor {name} is read by a BPU node and is not calibrated")
        form = next(iter(forms.values()))
        if wanted is not None and not (is_like(form, wanted) and self._is_as_calibrated(value, form)):
            forms = self._rescaled(value, forms, wanted)
        if value in self._float_with_reader:
            self._float_with_reader.remove(value)
            self._float(tensor)
        form = self._in_layout(forms, layout, reader)
        if form.offset and not unsigned:
            raise _misplaced_unsigned(name)
        return form

    def _quantize_itself(
        self, value: ir.Value, wanted: Calibration, reader: Reader, layout: str
    ) -> dict[str, Quantized]:
        """HzQuantize of a float tensor as ``value`` is calibrated, whatever the Concat says that reads it.

        What the CPU resizes, which a Concat then requantises (nine drawn networks and 72 branches on three marches), or
        a part that is wider than its reader.
        """
        tensor, own = before_calibration(value), calibration_of(value)
        if own is None or own.scales.size > 1:
            own = wanted
        if own.bits != wanted.bits or not np.array_equal(own.scales, wanted.scales):
            reader = Reader(self._requantizing(value, own.bits, wanted)[0], 0)
        with self._writer.standing_at(str(value.name)):
            return self._quantize(tensor, str(tensor.name), own, reader, layout)

    def _readable(self, value: ir.Value) -> Calibration | None:
        """How ``value`` is calibrated for its reader, in int8 where that has no int16."""
        own, before = calibration_of(value), calibration_before(value)
        reader = next((node for node in self._chain if value in node.inputs), None)
        rule = None if reader is None else rule_for(reader)
        if rule is None or rule.int16_inputs or before is None or before.qtype != "int16":
            return own
        return (own or before).narrowed

    def _rescaled(self, value: ir.Value, forms: dict[str, Quantized], wanted: Calibration) -> dict[str, Quantized]:
        """``forms`` as ``wanted``, from how ``value`` is calibrated where that is in another way than what gives it.

        So a Resize, which has no int16, gives its own scale before a Concat takes that of its output (both Resizes of
        a YOLO11 in int16), and a part of a Sigmoid that has its own threshold (boxes of YOLOv5).
        """
        own = calibration_of(value)
        for each in (own, wanted):
            if each is not None and each.scales.size == 1 and not is_like(next(iter(forms.values())), each):
                forms = self._requantize(value, forms, each)
        return forms

    def _is_as_calibrated(self, value: ir.Value, form: Quantized) -> bool:
        """Whether ``form`` is as ``value`` is calibrated: a part of a PRelu's result has a scale of its own."""
        own = calibration_of(value)
        return own is None or own.scales.size > 1 or is_like(form, own)

    def padded(self, value: ir.Value, form: Quantized, pads: Sequence[int]) -> Quantized:
        """See :meth:`engine.ops.core.base.Lowering.padded`."""
        tensor = str(before_calibration(value).name)
        name = self._writer.unique(self._names.of(NameSite(NamedPart.PADS, tensor=tensor)))
        inputs, attributes, shape = zero_padding(name, form, pads, self)
        output = self._names.of(NameSite(NamedPart.PADDED, node=name))
        result = self._writer.append("HzPad", name, inputs, attributes, output, form.value.type, shape)
        return replace(form, value=result)

    def constant(self, value: ir.Value | None) -> NDArray[Any] | None:
        """Float array of a constant input, seen through its calibration node."""
        return None if value is None else constant_of(before_calibration(value))

    def calibration(self, value: ir.Value) -> Calibration | None:
        """Calibration of the tensor that ``value`` stands for, or of what the BPU moved to it."""
        return calibration_before(value)

    def is_tail(self, value: ir.Value) -> bool:
        """Whether only float consumers read ``value``."""
        return own_calibration(value) is None

    def initializer(self, name: str, array: NDArray[Any]) -> ir.Value:
        """A constant of the quantised graph; see :meth:`engine.quantize.writer.GraphWriter.initializer`."""
        return self._writer.initializer(name, array)

    def emit(
        self,
        op_type: str,
        node: ir.Node,
        inputs: Sequence[ir.Value],
        attributes: Mapping[str, Any],
        *results: ir.Value,
        bits: int | Sequence[int],
        scale: NDArray[np.float32],
        layout: str = "NHWC",
        domain: str = HORIZON_DOMAIN,
        name: str | None = None,
    ) -> None:
        """Append a quantised node; its outputs are the integer forms of ``results``.

        Raises:
            TypeError: the operator does not declare that it is made of nodes like the chain's first.
        """
        self._check_declared(op_type, domain)
        widths = [bits] * len(results) if isinstance(bits, int) else bits
        moves = domain != HORIZON_DOMAIN and inputs[0] in self._quantized_ahead
        rule = rule_for(node)
        positions = () if rule is None else rule.index_outputs
        values = [
            self._integer_value(
                result, width, layout, moves and not _has_float_reader(result), index if index in positions else 0
            )
            for index, (result, width) in enumerate(zip(results, widths, strict=True))
        ]
        self._quantized_ahead.update(values if moves else ())
        if len(shape_of(results[0])) != len(TO_NHWC):  # only maps have a layout (52 of 52 nodes of rank 3, 9 of rank 5)
            attributes = {key: item for key, item in attributes.items() if key != "data_format"}
        own = name or self._names.of(NameSite(NamedPart.COMPUTES, node=str(node.name)))
        self._writer.add(op_type, own, inputs, attributes, values, domain)
        for result, value, width in zip(results, values, widths, strict=True):
            calibration = self.calibration(result)
            offset = 0 if calibration is None else calibration.offset
            form = Quantized(value, np.asarray(scale, np.float32), width, offset)
            self._integers[str(result.name)] = {layout if len(shape_of(result)) == 4 else "flat": form}
            self._scale_names[value] = self._scale_name(node, inputs[0], result, width)

    def _check_declared(self, op_type: str, domain: str) -> None:
        head = self._chain[0].op_type
        known = OPERATORS if domain == HORIZON_DOMAIN else STANDARD_OPERATORS
        if op_type not in known or head not in known[op_type].float_types:
            raise TypeError(f"a rule makes {op_type} of {head}, which the operator does not declare (float_types)")

    def _integer_value(self, result: ir.Value, bits: int, layout: str, ahead: bool, index: int) -> ir.Value:
        """The integers of ``result``; ``ahead``: that is moved before anything computes with it.

        ``index``: of positions among the results of their node, 0 for all else.
        """
        shape = shape_of(result)
        return self._writer.value(
            self._names.of(NameSite(NamedPart.INTEGERS, tensor=str(result.name), ahead=ahead, index=index)),
            ir.TensorType(DTYPES[bits]),
            transposed(shape, TO_NHWC) if layout == "NHWC" else shape,
        )

    def alias(self, result: ir.Value, form: Quantized) -> None:
        """Let ``form`` be the integer form of ``result`` too: no operator is needed."""
        layout = "NHWC" if len(shape_of(result)) == 4 else "flat"
        self._integers[str(result.name)] = {layout: form}

    def _scale_name(self, node: ir.Node, source: ir.Value, result: ir.Value, bits: int) -> str:
        """Name of the constant that dequantises ``result``: of its accumulator, its calibration, or what it moves."""
        is_moved = own_calibration(result) is None or result.is_graph_output()
        before = self._scale_names.get(source, "") if is_moved else ""
        site = NameSite(NamedPart.SCALE, tensor=_scale_owner(result), node=str(node.name), in_int32=bits == 32)
        return self._names.of(replace(site, moved_scale=before))

    def _lower(self, chain: Sequence[ir.Node]) -> None:
        rule = rule_for(chain[0])
        if rule is None:
            raise ModelError(
                f"node {chain[0].name} ({chain[0].op_type}) is marked for the BPU, which has no such operator"
            )
        self._chain = chain
        rule.lower(chain, self)

    def _copy(self, node: ir.Node) -> None:
        """A CPU node on float tensors; a Relu is none whose result is only quantised without negative numbers."""
        if _is_in_its_type(node):
            source = self._float(given(node, 0))
            source.name = node.outputs[0].name
            self._floats[str(source.name)] = source
            return
        inputs = [None if value is None else self._float_or_constant(value) for value in node.inputs]
        outputs = [ir.Value(name=value.name, type=value.type, shape=value.shape) for value in node.outputs]
        copy = ir.Node(
            node.domain,
            node.op_type,
            inputs,
            node.attributes.values(),
            outputs=outputs,
            name=node.name,
            metadata_props=dict(node.metadata_props),
        )
        self._writer.write(copy)
        self._floats.update({str(value.name): value for value in outputs})

    def _float_or_constant(self, value: ir.Value) -> ir.Value:
        tensor = before_calibration(value)
        array = constant_of(tensor)
        if array is not None and tensor.is_initializer():
            return self.initializer(str(tensor.name), array)
        return self._float(value)

    def _float(self, value: ir.Value) -> ir.Value:
        """The float form of ``value``, dequantised where it is not there; a calibrated one has a name of its own."""
        tensor = before_calibration(value)
        if str(tensor.name) in self._floats:
            return self._floats[str(tensor.name)]
        name = self._names.of(
            NameSite(NamedPart.FLOAT, tensor=str(value.name), calibrated=self._calibrated_name(value))
        )
        if name not in self._floats:
            self._floats[name] = self._dequantize(tensor, name)
        return self._floats[name]

    def _calibrated_name(self, value: ir.Value) -> str:
        """Name of the calibrated form of ``value``; empty where it is not calibrated, or the CPU reads it as it is.

        That is a function that left the BPU last, beside what reads the calibrated form.
        """
        tensor = before_calibration(value)
        if any(not is_calibration(usage.node) and not on_bpu(usage.node) for usage in tensor.uses()):
            return ""
        if is_calibration(value.producer()):
            return str(value.name)
        last = value if value.is_graph_output() else _last_calibrated(value)
        return "" if last is value else str(last.name)

    def _output(self, value: ir.Value) -> ir.Value:
        """A graph output under its own name."""
        found = self._float(value)
        if found.name != value.name:
            found.name = value.name
        return found

    def _graph_input(self, value: ir.Value) -> ir.Value:
        """A graph input: int8 pixels where the first node is a preprocessing one, float otherwise."""
        pixels = pixel_input(value, self._source, self.march)
        if pixels is None:
            copy = ir.Value(name=value.name, type=value.type, shape=value.shape)
            self._floats[str(value.name)] = copy
            return copy
        self._integers[str(value.name)] = {pixels.layout: Quantized(pixels.value, np.ones(1, np.float32), 8)}
        return pixels.value

    def _quantize_ahead(self, tensor: ir.Value, value: ir.Value, reader: Reader, layout: str) -> dict[str, Quantized]:
        """HzQuantize of a float tensor that is only moved, at the scale of what is calibrated behind its reader.

        Once for every such scale (``swin_b``; two slices of a Softmax, which have two, 5 of 5 asked).
        """
        node = next((each for each in self._chain if value in each.inputs), None)
        name, wanted = calibration_behind(self._source, tensor, node)
        made = self._moved.setdefault(str(tensor.name), [])
        for forms in made:
            form = next(iter(forms.values()))
            if form.bits == wanted.bits and np.array_equal(form.scale, wanted.scales):
                return forms
        made.append(self._quantize(tensor, name, wanted, reader, layout, moved=True))
        return made[-1]

    def _quantize(
        self, tensor: ir.Value, name: str, wanted: Calibration, reader: Reader, layout: str, moved: bool = False
    ) -> dict[str, Quantized]:
        """HzQuantize of a float tensor; where the march keeps layouts outside, behind the transpose that is needed.

        One that is only moved keeps its layout.
        """
        shape = shape_of(tensor)
        source = self._float_or_constant(tensor)
        outside = self.march.layout_outside and len(shape) == 4 and not moved and layout == "NHWC"
        if outside:
            source = self._as_input(source, reader)
            shape = transposed(shape, TO_NHWC)
        scale_name = self._names.of(NameSite(NamedPart.SCALE, tensor=name))
        scale = self.initializer(scale_name, wanted.scales)
        quantized = self._writer.append(
            "HzQuantize",
            self._names.of(NameSite(NamedPart.QUANTIZES, tensor=name)),
            [source, scale, *self._zero_points(scale_name, wanted.scales, wanted.offset)],
            {"bits": wanted.bits, **({"axis": 0 if moved else 3} if outside or moved else {})},
            self._names.of(NameSite(NamedPart.QUANTIZED, tensor=name)),
            ir.TensorType(DTYPES[wanted.bits]),
            shape,
        )
        self._quantized_ahead.update([quantized] if moved else ())
        made = ("NHWC" if outside else "NCHW") if len(shape) == 4 else "flat"
        forms = {made: Quantized(quantized, wanted.scales, wanted.bits, wanted.offset)}
        self._integers[str(tensor.name)] = forms
        return forms

    def _zero_points(self, scale_name: str, scales: NDArray[np.float32], offset: int) -> list[ir.Value]:
        """The third input of what converts between floats and integers of type ``uint8``; none of others."""
        if not offset:
            return []
        return [
            self.initializer(scale_name.replace("_y_scale", "_y_zero_point"), np.full(scales.shape, -offset, np.int8))
        ]

    def _constant_operand(
        self, value: ir.Value, array: NDArray[Any], wanted: Calibration, layout: str, reader: Reader
    ) -> Quantized:
        """The integers of a constant that an operator reads as an activation.

        They have the rank of the operator's result; where it reads ONNX's own layout, their own (21 numbers of a Max).
        Every reader has its own.
        """
        node = next(each for each in self._chain if value in each.inputs)
        rank = max(array.ndim, len(shape_of(node.outputs[0])) if layout == "NHWC" else 1)
        source = str(before_calibration(value).name)
        key = f"{source}@{wanted.bits}@{wanted.scales.tobytes().hex()}@{layout}@{rank}@{node.name}"
        if key not in self._integers:
            site = NameSite(
                NamedPart.OPERAND,
                tensor=source,
                node=str(node.name),
                reader=reader.node,
                index=reader.index,
                changes_layout=layout == "NHWC" and rank == len(TO_NHWC),
                is_number=array.size == 1,
            )
            name = self._writer.unique(self._names.of(site))
            integers = self.initializer(name, constant_integers(array, wanted, rank, layout))
            self._integers[key] = {layout: Quantized(integers, wanted.scales, wanted.bits)}
        return self._integers[key][layout]

    def _requantize(self, value: ir.Value, forms: dict[str, Quantized], wanted: Calibration) -> dict[str, Quantized]:
        """Another scale or width of the tensor that ``value`` stands for; remembered beside the first form.

        On bayes by its name, which does not say the scale: all Concats of one tensor read it at the scale of the first
        (4 of 4 asked, and 51 tensors of torchvision's densenet121). A map is in NHWC then, as behind any operator;
        another is transposed before (60 in ``crnn_gru``).
        """
        layout = "flat" if "flat" in forms else "NHWC"
        node, as_conv = self._requantizing(value, next(iter(forms.values())).bits, wanted)
        key = f"{node}@{wanted.scales.tobytes().hex()}" if as_conv else node
        if key not in self._requantized:
            form = self._in_layout(forms, layout, Reader(node, 0))
            if as_conv:
                result = rescale(node, form, wanted, self, self._writer, self._names)
            else:
                result = requantize(node, layout, form, wanted, self._writer, self._names)
            self._requantized[key] = {layout: Quantized(result, wanted.scales, wanted.bits)}
        return self._requantized[key]

    def _requantizing(self, value: ir.Value, bits: int, wanted: Calibration) -> tuple[str, bool]:
        """Name of what makes ``wanted`` of the tensor of ``value``, in ``bits``, and whether it is a convolution."""
        tensor, own, is_own = before_calibration(value), calibration_of(value), _is_own(value, wanted)
        as_conv = self.march.requantize_as_conv and len(shape_of(tensor)) == len(TO_NHWC)
        site = NameSite(
            NamedPart.REQUANTIZES,
            tensor=str(tensor.name),
            calibrated=_first_calibrated(value) if is_own else "",
            scale=float(wanted.scales[0]),
            widens=wanted.bits > bits and (own is None or own.bits > bits),
            is_own=_is_its_own(value, wanted),
            as_convolution=as_conv,
        )
        return self._names.of(site), as_conv

    def _in_layout(self, forms: dict[str, Quantized], layout: str, reader: Reader) -> Quantized:
        """The one of ``forms`` in ``layout``, transposed once for ``reader`` where it is not there."""
        if "flat" in forms:
            return forms["flat"]
        if layout not in forms:
            form = next(iter(forms.values()))
            moved = self._as_input(form.value, reader) if layout == "NHWC" else self._to_nchw(form.value)
            forms[layout] = replace(form, value=moved)
            if form.value in self._scale_names:
                self._scale_names[moved] = self._scale_names[form.value]
        return forms[layout]

    def _dequantize(self, tensor: ir.Value, name: str) -> ir.Value:
        """Float form ``name`` of an integer tensor; the transpose stands on the side that the march keeps it."""
        if str(tensor.name) not in self._integers:
            raise ModelError(f"tensor {tensor.name} has neither a float nor an integer form")
        forms, last = self._integers[str(tensor.name)], _last_calibrated(tensor)
        wanted = calibration_of(last)
        if wanted is not None and _first_calibrated(last):
            forms = self._rescaled(last, forms, wanted)
        first = next(iter(forms.values()))
        outside = self._turns_outside(tensor, forms)
        reader = self._reader(tensor)
        form = first if outside else self._in_layout(forms, "NCHW", reader)
        if tensor.type is not None and tensor.dtype != ir.DataType.FLOAT:
            return self._cast(tensor, self._in_layout(forms, "NCHW", reader), name)
        own = NameSite(NamedPart.SCALE, tensor=_scale_owner(tensor))
        scale_name = self._scale_names[first.value] if first.value in self._scale_names else self._names.of(own)
        value = self._writer.append(
            "HzDequantize",
            self._names.of(NameSite(NamedPart.DEQUANTIZES, tensor=name)),
            [
                form.value,
                self.initializer(scale_name, form.scale),
                *self._zero_points(scale_name, form.scale, form.offset),
            ],
            _dequantized_axis(tensor, outside),
            self._names.of(NameSite(NamedPart.DEQUANTIZED, tensor=name, changes_layout=outside)),
            ir.TensorType(ir.DataType.FLOAT),
            shape_of(form.value),
        )
        return self._to_nchw(value, first.value, name) if outside else value

    def _cast(self, tensor: ir.Value, form: Quantized, name: str) -> ir.Value:
        """Positions in the type of the float graph, by a node named after the one that finds them (``tail_argmax``)."""
        producer = tensor.producer()
        index = 0 if producer is None else producer.outputs.index(tensor)
        finds = name if producer is None else str(producer.name)
        node = self._names.of(NameSite(NamedPart.CASTS, tensor=name, node=finds, index=index))
        return self._writer.append(
            "Cast", node, [form.value], {"to": int(tensor.dtype or 0)}, name, tensor.type, shape_of(form.value), ""
        )

    def _as_input(self, source: ir.Value, reader: Reader) -> ir.Value:
        """``source`` in NHWC, as an input of ``reader``."""
        names = [
            self._names.of(NameSite(part, reader=reader.node, index=reader.index))
            for part in (NamedPart.TO_NHWC, NamedPart.IN_NHWC)
        ]
        return self._writer.input_transpose(source, TO_NHWC, *names)

    def _reader(self, value: ir.Value, index: int | None = None) -> Reader:
        """Which input of the quantised node of the current chain ``value`` becomes: ``index`` where it is given."""
        for node in self._chain:
            if value in node.inputs:
                own = node.inputs.index(value) if index is None else index
                return Reader(str(self._chain[0].name), own if node is self._chain[0] else SUM_INPUT)
        return Reader(str(value.name), 0)

    def _to_nchw(self, source: ir.Value, owner: ir.Value | None = None, output: str = "") -> ir.Value:
        """``source`` in NCHW, of the node that produces ``owner``; ``output``: its name where it is float."""
        value = owner or source
        node = value.producer()
        writer, index = (value.name, 0) if node is None else (node.name, node.outputs.index(value))
        site = NameSite(NamedPart.TO_NCHW, node=str(writer), index=index, float_name=output)
        names = [self._names.of(replace(site, part=part)) for part in (NamedPart.TO_NCHW, NamedPart.IN_NCHW)]
        return self._writer.transpose(source, TO_NCHW, *names)


def _is_own(value: ir.Value, wanted: Calibration) -> bool:
    """Whether ``wanted`` is the calibration of ``value`` itself."""
    own = calibration_of(value)
    return own is not None and own.bits == wanted.bits and np.array_equal(own.scales, wanted.scales)


def _is_read_in_own_layout(value: ir.Value, form: Quantized) -> bool:
    """Whether a BPU node reads ``value`` as ``form``, moved to the float graph's layout.

    A MatMul that reads maps or parts of eight kinds, before or behind what reads them as floats (80 on bernoulli2).
    """
    own = calibration_of(value)
    is_read = own is None or is_like(form, own)
    for usage in value.uses():
        if is_calibration(usage.node):
            if _is_read_in_own_layout(usage.node.outputs[0], form):
                return True
        elif is_read and on_bpu(usage.node):
            rule = rule_for(usage.node)
            if rule is not None and rule.layout(usage.node) == "NCHW":
                return True
    return False


def _is_its_own(value: ir.Value, wanted: Calibration) -> bool:
    """Whether ``wanted`` is the calibration of ``value`` itself, which what moves or sums up to it has not."""
    mover = before_calibration(value).producer()
    if mover is None or not _is_own(value, wanted):
        return False
    return keeps_scale(mover) or mover.op_type in WAITING | REDUCTIONS


def _last_calibrated(value: ir.Value) -> ir.Value:
    """The calibrated form of ``value``, of two the second; ``value`` where it is not calibrated."""
    while (found := next((usage.node for usage in value.uses() if is_calibration(usage.node)), None)) is not None:
        value = found.outputs[0]
    return value


def _is_twice_calibrated_output(value: ir.Value) -> bool:
    """Whether an output of the network that the BPU reads too is calibrated twice: it is float where that reads it."""
    return _is_read_output(value) and bool(_first_calibrated(_last_calibrated(value)))


def _is_read_output(value: ir.Value) -> bool:
    """Whether an output of the network is the calibrated form of ``value``, which the BPU computes with."""
    last = _last_calibrated(value)
    is_read = any(on_bpu(usage.node) and not is_passive(usage.node) for usage in last.uses())
    return last is not value and last.is_graph_output() and is_read


def _scale_owner(value: ir.Value) -> str:
    """The tensor that the scale of ``value`` is called after: an output that is its calibrated form and read so."""
    return str((_last_calibrated(value) if _is_read_output(value) else value).name)


def _first_calibrated(value: ir.Value) -> str:
    """Name of the first calibrated form where ``value`` is the second; empty where there is one alone."""
    node = value.producer()
    inner = node.inputs[0] if node is not None and is_calibration(node) else None
    return "" if inner is None or not is_calibration(inner.producer()) else str(inner.name)


def _is_in_its_type(node: ir.Node) -> bool:
    """Whether ``node`` is the Relu of a convolution on the CPU whose result is unsigned, and read by BPU nodes alone.

    The type has no negative numbers (one draw, two branches each on bernoulli2 and bayes-e).
    """
    source = given(node, 0).producer() if node.op_type == "Relu" else None
    if source is None or source.op_type != "Conv" or len(list(source.outputs[0].uses())) != 1:
        return False
    readers = [usage.node for usage in node.outputs[0].uses()]
    wanted = None if len(readers) != 1 or not is_calibration(readers[0]) else calibration_of(readers[0].outputs[0])
    return (
        wanted is not None and bool(wanted.offset) and all(on_bpu(each.node) for each in readers[0].outputs[0].uses())
    )


def _misplaced_unsigned(tensor: str) -> UnsupportedError:
    return UnsupportedError(
        f"tensor {tensor!r}: type {UNSIGNED} is for results of a convolution with Relu or Clip that only convolutions, "
        "sums in such and MaxPool read"
    )


def _dequantized_axis(tensor: ir.Value, outside: bool) -> Mapping[str, int]:
    """The channels of what is dequantised: the last axis of a map in NHWC, and of what a Reshape gives.

    Not of what a Reshape gives that is calibrated itself (12 in four networks; 19 that are not have it).
    """
    if outside or data_format(_producers(tensor)) == "NHWC":
        return {"axis": CHANNELS_LAST}
    calibrated = any(is_calibration(usage.node) for usage in tensor.uses())
    reshaped = not calibrated and any(node.op_type == "Reshape" for node in _producers(tensor))
    return {"axis": len(shape_of(tensor)) - 1} if reshaped else {}


def _producers(value: ir.Value) -> list[ir.Node]:
    node = value.producer()
    return [] if node is None else [node]


def _has_float_reader(value: ir.Value) -> bool:
    """Whether the graph's user or a CPU node reads ``value``, calibrated or not: it is dequantised where it is made.

    So is, as by the original, an output that nothing reads beside one that something does
    (reference/operators.md, uneven Split).
    """
    if value.is_graph_output() or not value.uses():
        return bool(value.name)
    return any(
        _has_float_reader(usage.node.outputs[0]) if is_calibration(usage.node) else not on_bpu(usage.node)
        for usage in value.uses()
    )
