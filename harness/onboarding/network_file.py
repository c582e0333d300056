"""What an ONNX file says of its image input and its outputs, and what it looks like in ONNX Runtime."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError, ModelError
from engine.terms import Layout
from harness.backends.outputs import images_first
from harness.onboarding.convertible import read_float_model
from harness.onboarding.exporters import Exporter, Family, exporter_of, family_of, read_exported
from harness.onboarding.fixed_inputs import inputs_of, next_steps, shape_words
from harness.zoo.float_session import float_session

if TYPE_CHECKING:
    import onnx

USUAL_SIDE = 224
"""Side of an image where the network takes any."""
_FIRST_OPERATORS = ("Cast", "Identity", "Transpose", "Sub", "Add", "Mul", "Div", "BatchNormalization")
"""What may stand between the input and the first layer that learns."""


class Branch(StrEnum):
    """Which of the two heads of a YOLO network that is trained end to end gives an output.

    Attributes:
        ONE_TO_ONE: one box per object.
        ONE_TO_MANY: several boxes per object, which suppression must thin out; all heads of other networks.
        UNKNOWN: the names of the layers do not say it.
    """

    ONE_TO_ONE = "one-to-one"
    ONE_TO_MANY = "one-to-many"
    UNKNOWN = ""


def branch_of(node: onnx.NodeProto | None) -> Branch:
    """The branch of the layer ``node``, as ultralytics names it and its weights: ``one2one_cv2``, ``cv2``."""
    words = "" if node is None else " ".join((node.name, *node.input))
    if "one2one" in words:
        return Branch.ONE_TO_ONE
    return Branch.ONE_TO_MANY if _HEAD_LAYERS.search(words) else Branch.UNKNOWN


_HEAD_LAYERS = re.compile(r"[./]cv[23]\.[0-9]+[./]")


@dataclass(frozen=True)
class OutputTensor:
    """An output for one image.

    Attributes:
        name, shape: of it.
        is_whole: whether its numbers are integers.
        producer: operator that gives it.
        tail: operators behind the last layers that learn.
        is_separable: whether a depthwise convolution stands right in front of one of these layers.
        branch: of a YOLO network.
    """

    name: str
    shape: tuple[int, ...]
    is_whole: bool = False
    producer: str = ""
    tail: tuple[str, ...] = ()
    is_separable: bool = False
    branch: Branch = Branch.UNKNOWN


class NetworkOutputs(Protocol):
    """What outputs are judged by."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the image input in pixels; (0, 0) of networks with other inputs."""

    @property
    def outputs(self) -> tuple[OutputTensor, ...]:
        """In the order of the file, with the shapes that they have for one sample."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """Metadata of the file."""


@dataclass(frozen=True)
class NetworkFile:
    """A network with one image input.

    Attributes:
        path: the file.
        input_name: of its input.
        layout: of its input.
        size: height and width of its input in pixels.
        channels: 1 or 3.
        size_reason: where the size comes from.
        is_dynamic: whether the file leaves a dimension open.
        outputs: in its order, with the shapes that they have for one image.
        metadata: of the file.
        exporter: that wrote the file.
        family: architecture that the names of its layers tell.
        begins_with: operators between the input and the first layer that learns.
        subtracted: what a subtraction or batch normalisation subtracts there, in units of the input; a mean.
        scaled: factor of multiplications and divisions there, mean over channels; None where there are none.
        seconds: that one image takes in ONNX Runtime, on one thread.
        remarks: what the file declares and ONNX Runtime does otherwise.
    """

    path: Path
    input_name: str
    layout: Layout
    size: tuple[int, int]
    channels: int
    size_reason: str
    is_dynamic: bool
    outputs: tuple[OutputTensor, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    exporter: Exporter = Exporter.UNKNOWN
    family: Family = Family.UNKNOWN
    begins_with: tuple[str, ...] = ()
    subtracted: float | None = None
    scaled: float | None = None
    seconds: float = 0.0
    remarks: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the input, one image."""
        if self.layout is Layout.NCHW:
            return (1, self.channels, *self.size)
        return (1, *self.size, self.channels)


class Runner:
    """A network in ONNX Runtime, a sample per run, which one thread computes; several samples take several threads.

    Args:
        path: the file.
        input_name: of the input that images go to.
    """

    def __init__(self, path: Path, input_name: str = "") -> None:
        try:
            self._session = float_session(path, threads=1)
        except Exception as error:  # its errors have no common class of their own
            from engine.ir import load_model

            load_model(path)  # what it knows by name it refuses in plain words, such as weights that are missing
            raise ModelError(f"{path}: ONNX Runtime cannot open it: {' '.join(str(error).split())[:300]}") from error
        self._path, self._input = path, input_name
        self.names = [output.name for output in self._session.get_outputs()]
        self._pool = ThreadPoolExecutor(runs_at_once())

    def __call__(self, inputs: NDArray[np.float32]) -> list[NDArray[Any]]:
        """Outputs for ``inputs``, float32, (images, …): one array per output, images in the first dimension.

        Raises:
            ModelError: ONNX Runtime refuses the image.
        """
        return self.begin(inputs, lambda image: image)()

    def begin(
        self, samples: NDArray[Any], fed: Callable[[NDArray[Any]], NDArray[np.float32]]
    ) -> Callable[[], list[NDArray[Any]]]:
        """Begin to compute the outputs for ``samples``; what is returned waits for them, and is as of a call.

        Args:
            samples: along the first dimension.
            fed: what the network is fed for a sample, float32; it is called where the sample is computed.
        """
        running = [self._pool.submit(lambda sample: self.run(fed(sample)), sample) for sample in samples]

        def outputs() -> list[NDArray[Any]]:
            try:
                columns = zip(*(each.result() for each in running), strict=True)
                return images_first([np.concatenate(column) for column in columns], len(running))
            finally:
                for each in running:  # where one has failed, or nobody waits any more
                    each.cancel()

        return outputs

    def close(self) -> None:
        """Drop the samples that have not been computed, for which a process that ends would wait; none come after."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def run(self, image: NDArray[np.float32]) -> list[NDArray[Any]]:
        """Outputs for ``image``, float32, without a batch, as the network gives them.

        Raises:
            ModelError: ONNX Runtime refuses the image.
        """
        return self.feed({self._input: image[np.newaxis]}, f"an image of shape {image.shape}")

    def feed(self, inputs: Mapping[str, NDArray[Any]], words: str) -> list[NDArray[Any]]:
        """Outputs for one sample, as the network gives them.

        Args:
            inputs: by name, with a batch of 1.
            words: what they are, for a message.

        Raises:
            ModelError: ONNX Runtime refuses them.
        """
        try:
            found = self._session.run(None, dict(inputs))
        except Exception as error:  # its errors have no common class of their own
            text = " ".join(str(error).split())[:300]
            raise ModelError(f"{self._path}: does not run on {words}: {text}") from error
        return [np.asarray(array) for array in found]


def runs_at_once() -> int:
    """Samples that a :class:`Runner` computes at a time: one per core, but few, as each has its own memory."""
    return min(os.cpu_count() or 1, _MOST_AT_ONCE)


_MOST_AT_ONCE = 8


def read_network(path: Path, size: tuple[int, int] | None = None) -> NetworkFile:
    """The network in ``path``.

    Args:
        path: ONNX file.
        size: height and width of its input, for networks that take any; None to guess.

    Raises:
        ModelError: it is no ONNX model, or does not run.
        UnsupportedError: it is quantised already.
        ConfigError: it has no single image input, or another size than ``size``.
    """
    model = read_float_model(path)
    inputs = inputs_of(model)
    if not inputs:
        raise ModelError(f"{path}: has no input that could be fed")
    if len(inputs) != 1:
        listed = ", ".join(f"{value.name} {shape_words(value)}" for value in inputs)
        raise ConfigError(f"{path}: has {len(inputs)} inputs ({listed}); expected one, an image. {next_steps(inputs)}")
    (value,) = inputs
    dims = dims_of(value)
    layout, channels = _layout(path, value)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    given = (dims[2], dims[3]) if layout is Layout.NCHW else (dims[1], dims[2])
    found, reason = _size(path, given, size, metadata)
    begins, subtracted, scaled = _beginning(model, value.name)
    read = NetworkFile(
        path=path,
        input_name=value.name,
        layout=layout,
        size=found,
        channels=channels,
        size_reason=reason,
        is_dynamic=0 in dims,
        metadata=metadata,
        exporter=exporter_of(model),
        family=family_of(model),
        begins_with=begins,
        subtracted=subtracted,
        scaled=scaled,
    )
    return _with_outputs(read, model)


def dims_of(value: onnx.ValueInfoProto) -> list[int]:
    """Dimensions of ``value``; 0 where one is open."""
    return [max(int(dim.dim_value), 0) for dim in value.type.tensor_type.shape.dim]


def _layout(path: Path, value: onnx.ValueInfoProto) -> tuple[Layout, int]:
    """Layout and channels of an input, by where its 1 or 3 is."""
    dims, given = dims_of(value), f"{path}: its input {value.name} has shape {shape_words(value)} (?: open)"
    if len(dims) != 4 or dims[0] not in (0, 1):
        raise ConfigError(f"{given}; expected one image, 1xCxHxW or 1xHxWxC. {next_steps([value])}")
    if dims[1] in (1, 3):
        return Layout.NCHW, dims[1]
    if dims[3] in (1, 3):
        return Layout.NHWC, dims[3]
    raise ConfigError(f"{given}; expected 1 or 3 channels. {next_steps([value])}")


def _size(
    path: Path, given: tuple[int, int], asked: tuple[int, int] | None, metadata: Mapping[str, str]
) -> tuple[tuple[int, int], str]:
    """Height and width of the input, and where they come from."""
    if all(given):
        if asked is not None and asked != given:
            raise ConfigError(f"--size {asked[0]}x{asked[1]}: the input of {path} is {given[0]}x{given[1]}")
        return given, "the shape of the input"
    if asked is not None:
        return asked, "--size"
    said = read_exported(metadata).size
    if said is not None:
        return said, "imgsz in the metadata of the file"
    height, width = given
    return (height or USUAL_SIDE, width or USUAL_SIDE), "the usual size: the network takes any; else give --size"


def _beginning(model: onnx.ModelProto, name: str) -> tuple[tuple[str, ...], float | None, float | None]:
    """Operators in front of the first layer that learns, what they subtract and what they multiply by.

    What is subtracted is in units of the input, whatever it was multiplied by before; both are means over channels.
    """
    constants = {entry.name: entry for entry in model.graph.initializer}
    constants |= {
        node.output[0]: attribute.t
        for node in model.graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    }
    begins: list[str] = []
    subtracted: float | None = None
    scaled: float | None = None
    while True:
        users = [node for node in model.graph.node if name in node.input]
        if len(users) != 1 or users[0].op_type not in _FIRST_OPERATORS:
            return tuple(begins), subtracted, scaled
        node = users[0]
        begins.append(node.op_type)
        value = _constant_of(node, name, constants)
        if value:
            if node.op_type in ("Mul", "Div"):
                scaled = (scaled or 1.0) * (value if node.op_type == "Mul" else 1 / value)
            elif subtracted is None:
                subtracted = (-value if node.op_type == "Add" else value) / (scaled or 1.0)
        name = node.output[0]


def _constant_of(node: onnx.NodeProto, name: str, constants: Mapping[str, onnx.TensorProto]) -> float | None:
    """Mean of the constant that ``node`` adds to ``name``, subtracts from it, or multiplies or divides it by."""
    from onnx import numpy_helper

    place = 3 if node.op_type == "BatchNormalization" else 1
    if node.op_type not in ("Sub", "Add", "Mul", "Div", "BatchNormalization") or place >= len(node.input):
        return None
    given = node.input[place]
    if node.op_type in ("Add", "Mul") and given == name:
        given = node.input[0]
    tensor = constants.get(given)
    if tensor is None or tensor.external_data or (node.input[0] != name and node.op_type in ("Sub", "Div")):
        return None
    return float(numpy_helper.to_array(tensor).mean())


_LEARN = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def _tail(producers: Mapping[str, onnx.NodeProto], name: str) -> tuple[tuple[str, ...], bool]:
    """Operators between ``name`` and the last layers that learn, and whether depthwise convolutions feed these."""
    found: dict[str, None] = {}
    is_separable, seen, waiting = False, {name}, [name]
    while waiting:
        node = producers.get(waiting.pop())
        if node is None:
            continue
        if node.op_type in _LEARN:
            before = producers.get(node.input[0])
            is_separable |= before is not None and _is_depthwise(before)
            continue
        found[node.op_type] = None
        waiting += [name for name in node.input if name not in seen]
        seen.update(node.input)
    return tuple(found), is_separable


def _layer(producers: Mapping[str, onnx.NodeProto], name: str) -> onnx.NodeProto | None:
    """What gives ``name``, moves of its axes looked through."""
    node = producers.get(name)
    while node is not None and node.op_type in ("Transpose", "Identity"):
        node = producers.get(node.input[0])
    return node


def _is_depthwise(node: onnx.NodeProto) -> bool:
    return node.op_type == "Conv" and any(entry.name == "group" and entry.i > 1 for entry in node.attribute)


_RUNS = 3
"""Runs that are timed; the shortest counts, because other programs slow single runs down."""


def _with_outputs(network: NetworkFile, model: onnx.ModelProto) -> NetworkFile:
    """``network`` with its outputs and the time of a run, measured on gray."""
    runner = Runner(network.path, network.input_name)
    gray = np.full(network.shape[1:], 0.5, np.float32)
    outputs, seconds = measured_outputs(model, runner.names, lambda: runner.run(gray))
    return replace(network, outputs=outputs, seconds=seconds, remarks=other_shapes(model, outputs))


def other_shapes(model: onnx.ModelProto, outputs: Sequence[OutputTensor]) -> tuple[str, ...]:
    """Outputs that have another shape than the file declares, in words; ONNX Runtime would say it of every sample."""
    declared = {value.name: dims_of(value) for value in model.graph.output if value.type.tensor_type.HasField("shape")}
    found = []
    for output in outputs:
        dims = declared.get(output.name)
        fits = dims is None or (
            len(dims) == len(output.shape) and all(d in (0, s) for d, s in zip(dims, output.shape, strict=True))
        )
        if not fits and dims is not None:
            words = "x".join(str(dim or "?") for dim in dims)
            shape = "x".join(map(str, output.shape))
            found.append(f"output {output.name}: the file declares {words}, it has {shape}, which is what counts")
    return tuple(found)


def measured_outputs(
    model: onnx.ModelProto, names: Sequence[str], run: Callable[[], Sequence[NDArray[Any]]]
) -> tuple[tuple[OutputTensor, ...], float]:
    """Outputs of a network and the seconds that a run takes.

    Args:
        model: the network.
        names: of its outputs.
        run: gives the arrays of the outputs for one sample.
    """
    producers = {name: node for node in model.graph.node for name in node.output}
    run()
    seconds = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        arrays = run()
        seconds.append(time.perf_counter() - started)
    outputs = tuple(
        OutputTensor(
            name,
            array.shape,
            array.dtype.kind in "iub",
            producers[name].op_type if name in producers else "",
            *_tail(producers, name),
            branch_of(_layer(producers, name)),
        )
        for name, array in zip(names, arrays, strict=True)
    )
    return outputs, min(seconds)
