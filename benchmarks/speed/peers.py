"""Int8 peers of the simulator: what an engineer would run instead, neither exact nor the BPU's arithmetic.

Both run the same file: ONNX Runtime's own static quantisation of the float network, uint8 activations and int8 weights
per channel, which is what its documentation advises for CPUs with VNNI, and which OpenVINO takes as an int8 model.
"""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.version_converter
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, NotImplemented

from engine.errors import PtqlabError
from engine.ir import load_model, save_model
from engine.simulate.bench import FloatContender, Peer, samples, shaped_model
from engine.simulate.tensors import TensorInfo, describe, graph_inputs, random_feed

Feed = Mapping[str, NDArray[Any]]

ONNX_RUNTIME, OPENVINO = "int8 ORT", "int8 OpenVINO"
"""Names in the tables."""
PEERS = (ONNX_RUNTIME, OPENVINO)
CALIBRATION_SAMPLES = 2
"""Samples of noise for the thresholds, which do not change how long anything takes."""
PER_CHANNEL_OPSET = 13
"""Since when ``QuantizeLinear`` takes a scale per channel."""
REFUSALS = (PtqlabError, RuntimeError, ValueError, KeyError, Fail, InvalidArgument, InvalidGraph, NotImplemented)
"""What ONNX Runtime, OpenVINO and ONNX's version converter raise on a network that they cannot quantise or run."""


def int8_peers(
    float_model: Path, folder: Path, threads: int, batches: Sequence[int] = (1,)
) -> tuple[list[Peer], list[str]]:
    """ONNX Runtime and, where it is installed, OpenVINO on an int8 version of ``float_model``.

    Args:
        float_model: ONNX file of any float stage.
        folder: for the int8 file, which the peers do not need any more when this returns.
        threads: of each.
        batches: batch sizes that they will be given.

    Returns:
        The peers that run the network, and why others do not.
    """
    try:
        contender = FloatContender(load_model(int8_file(float_model, folder)), threads)
    except REFUSALS as error:
        return [], [f"{ONNX_RUNTIME}: {_first_line(error)}"]
    peers: list[Peer] = [OnnxRuntime(contender)]
    able: list[Peer] = []
    reasons: list[str] = []
    if has_openvino():
        openvino = OpenVino(contender.data, contender.inputs, contender.whole_batch, threads)
        if code := openvino.exit_code_of_a_trial(batches):
            reasons.append(f"{openvino.name}: its process ends with exit code {code}")
        else:
            peers.append(openvino)
    for peer in peers:
        try:
            peer.run(random_feed(contender.inputs, 1))
        except REFUSALS as error:
            reasons.append(f"{peer.name}: {_first_line(error)}")
        else:
            able.append(peer)
    return able, reasons


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def has_openvino() -> bool:
    """Whether the extra ``bench-peers`` is installed."""
    return find_spec("openvino") is not None


def int8_file(float_model: Path, folder: Path) -> Path:
    """``float_model`` by ONNX Runtime's static quantisation, in a new file of ``folder``."""
    from onnxruntime.quantization import QuantType, quantize_static

    standard = shaped_model(load_model(float_model))
    plain, target = folder / "plain.onnx", folder / "int8.onnx"
    save_model(standard, plain)
    proto = onnx.load(plain)
    if next(entry.version for entry in proto.opset_import if entry.domain == "") < PER_CHANNEL_OPSET:
        proto = onnx.version_converter.convert_version(proto, PER_CHANNEL_OPSET)
    with without_warnings():
        quantize_static(
            proto,
            target,
            _Noise(describe(graph_inputs(standard))),
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
    return target


class _Noise:
    """Calibration samples as ONNX Runtime asks for them, one at a time: pixels, or normally distributed floats."""

    def __init__(self, inputs: Sequence[TensorInfo]) -> None:
        rng = np.random.default_rng(0)
        self._feeds = iter(
            [
                {info.name: (rng.normal(size=info.shape) * 64).astype(info.dtype) for info in inputs}
                for _ in range(CALIBRATION_SAMPLES)
            ]
        )

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        """The next sample; None at the end."""
        return next(self._feeds, None)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Nothing below an error is logged: advice about networks of the suite does not help readers of the figures."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


@dataclass(frozen=True)
class OnnxRuntime:
    """The int8 network in ONNX Runtime.

    Attributes:
        contender: that runs it.
    """

    contender: FloatContender
    name: str = ONNX_RUNTIME

    def run(self, feed: Feed) -> None:
        """Compute a batch."""
        self.contender.run(feed)


@dataclass(frozen=True)
class OpenVino:
    """The int8 network in OpenVINO, compiled for each batch size that comes: it optimises for fixed shapes.

    Attributes:
        data: the network as ONNX, with a symbolic batch if ``whole_batch``.
        inputs: of one sample.
        whole_batch: whether the network takes more than one sample at once.
        threads: CPU threads.
    """

    data: bytes
    inputs: tuple[TensorInfo, ...]
    whole_batch: bool
    threads: int
    name: str = OPENVINO
    _requests: dict[int, Any] = field(default_factory=dict)

    def run(self, feed: Feed) -> None:
        """Compute a batch, in one call where the network takes it whole."""
        for part in (feed,) if self.whole_batch else samples(feed, self.inputs):
            rows = next(iter(part.values())).shape[0]
            self._request(rows, part).infer(dict(part), share_inputs=True, share_outputs=True)

    def exit_code_of_a_trial(self, batches: Sequence[int]) -> int:
        """Run each batch size once in a process of its own, because OpenVINO crashes while it compiles some networks.

        Returns:
            0 unless the process crashed: a network that OpenVINO refuses is no crash.
        """
        process = multiprocessing.get_context("spawn").Process(target=_try, args=(self, tuple(batches)))
        process.start()
        process.join()
        return process.exitcode or 0

    def _request(self, rows: int, feed: Feed) -> Any:
        if rows not in self._requests:
            import openvino

            core = openvino.Core()
            model = core.read_model(self.data)
            model.reshape({name: list(values.shape) for name, values in feed.items()})
            options = {"INFERENCE_NUM_THREADS": self.threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
            self._requests[rows] = core.compile_model(model, "CPU", options).create_infer_request()
        return self._requests[rows]


def _try(peer: OpenVino, batches: Sequence[int]) -> None:
    with suppress(*REFUSALS):
        for batch in batches:
            peer.run(random_feed(peer.inputs, batch))
