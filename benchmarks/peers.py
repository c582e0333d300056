"""Other tools' int8 models of a network, for rows of :mod:`benchmarks.option_gains`.

Each tool gets the float model and the same calibration images and leaves a standard ONNX file. None but ONNX Runtime is
a dependency of this project. What they depend on themselves excludes each other, so that each is tried in an
environment of its own, with this project beside the tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationMethod, QuantType, quantize_static

Quantizer = Callable[[Path, str, NDArray[np.float32], Path], None]
"""Quantises a file, the name of whose input is given, from images to another file."""


@dataclass(frozen=True)
class Peer:
    """A way to quantise with another tool.

    Attributes:
        package: of the tool in the registry.
        module: that it installs.
        quantize: how.
    """

    package: str
    module: str
    quantize: Quantizer

    @property
    def version(self) -> str | None:
        """Of the package; None where it is not installed."""
        return metadata.version(self.package) if find_spec(self.module) else None


def with_onnxruntime(
    model: Path, name: str, images: NDArray[np.float32], target: Path, *, symmetric: bool = True, **how: Any
) -> None:
    """ONNX Runtime's static quantisation, weights per channel."""
    quantize_static(
        _load(model),
        target,
        _Samples(name, images),
        **{"per_channel": True, "activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, **how},
        extra_options={"ActivationSymmetric": symmetric, "WeightSymmetric": True, "CalibPercentile": 99.99},
    )


def _load(model: Path) -> onnx.ModelProto:
    """In opset 13, with which scales per channel came."""
    return onnx.version_converter.convert_version(onnx.load(model), 13)


class _Samples:
    """Samples of one input, one at a time."""

    def __init__(self, name: str, images: NDArray[np.float32]) -> None:
        self._feeds = iter([{name: image[None]} for image in images])

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        """The next sample; None at the end."""
        return next(self._feeds, None)


def with_esp_ppq(model: Path, name: str, images: NDArray[np.float32], target: Path, *, method: str) -> None:
    """esp-ppq for the platform with symmetric int8 activations and weights per channel, scales no powers of two."""
    import torch
    from esp_ppq import QuantizationSettingFactory, TargetPlatform
    from esp_ppq.api import export_ppq_graph, quantize_onnx_model

    setting = QuantizationSettingFactory.default_setting()
    setting.quantize_activation_setting.calib_algorithm = method
    graph = quantize_onnx_model(
        str(model),
        [torch.from_numpy(image[None]) for image in images],
        len(images),
        [1, *images.shape[1:]],
        TargetPlatform.TRT_INT8,
        setting=setting,
        device="cpu",
    )
    report = target.with_suffix(".json")
    export_ppq_graph(graph, TargetPlatform.ONNXRUNTIME, graph_save_to=str(target), config_save_to=str(report))


def with_nncf(model: Path, name: str, images: NDArray[np.float32], target: Path, *, fast: bool) -> None:
    """NNCF's post-training quantisation of ONNX files, with fast bias correction or the slower one."""
    import nncf

    data = nncf.Dataset([{name: image[None]} for image in images])
    quantized = nncf.quantize(
        _load(model),
        data,
        subset_size=len(images),
        fast_bias_correction=fast,
    )
    onnx.save(quantized, target)


def with_aimet(model: Path, name: str, images: NDArray[np.float32], target: Path) -> None:
    """AIMET's ``tf_enhanced`` with its default configuration.

    Its cross-layer equalisation is not tried: it takes ``Clip(0, 6)`` for ``Relu``, which makes another network.
    """
    from aimet_onnx import QuantizationSimModel

    simulation = QuantizationSimModel(_load(model), quant_scheme="tf_enhanced")
    simulation.compute_encodings({name: image[None]} for image in images)
    onnx.save(simulation.to_onnx_qdq(), target)


_ONNXRUNTIME = partial(Peer, "onnxruntime", "onnxruntime")
_ESP_PPQ = partial(Peer, "esp-ppq", "esp_ppq")
_NNCF = partial(Peer, "nncf", "nncf")

PEERS: Mapping[str, Peer] = {
    "ONNX Runtime minmax": _ONNXRUNTIME(with_onnxruntime),
    "ONNX Runtime minmax, asymmetric": _ONNXRUNTIME(
        partial(with_onnxruntime, activation_type=QuantType.QUInt8, symmetric=False)
    ),
    "ONNX Runtime percentile 99.99": _ONNXRUNTIME(
        partial(with_onnxruntime, calibrate_method=CalibrationMethod.Percentile)
    ),
    **{
        f"esp-ppq {method}": _ESP_PPQ(partial(with_esp_ppq, method=method))
        for method in ("kl", "mse", "minmax", "percentile")
    },
    "AIMET tf_enhanced": Peer("aimet-onnx", "aimet_onnx", with_aimet),
    "NNCF, fast bias correction": _NNCF(partial(with_nncf, fast=True)),
    "NNCF, bias correction": _NNCF(partial(with_nncf, fast=False)),
}


def exact_session(path: Path) -> onnxruntime.InferenceSession:
    """``path`` in ONNX Runtime's integer kernels that do not saturate."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
