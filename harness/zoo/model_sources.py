"""Where the ONNX file of a model card comes from: a file, an installed package, or a torchvision architecture.

Networks that exist as weights only are exported once and kept below the user's cache folder. What a card's digest does
not match is never used, wherever it came from.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field

from engine.errors import MissingError, ModelError, hint
from engine.ir import read_proto, write_atomically
from engine.user_cache import user_cache
from harness.datasets.torchvision_import import import_torchvision
from harness.extras import how_to_install
from harness.files import paths
from harness.files.cache import content_key
from harness.files.strict_yaml import StrictModel

if TYPE_CHECKING:
    from torch import nn

OPSET = 13
EXPORT = 2
"""Version of what :func:`_export` writes: files of other versions are not taken from the cache."""
INPUT = "image"
OUTPUT = "scores"


def _below(value: str) -> str:
    if PurePosixPath(value).is_absolute() or ".." in PurePosixPath(value).parts:
        raise ValueError("expected a path relative to the folder in which it is looked up")
    return value


RelativePath = Annotated[str, AfterValidator(_below)]
"""A path that stays in the folder that it is looked up in."""


class PackageSource(StrictModel):
    """A file of an installed distribution.

    Attributes:
        distribution: as ``pip install`` knows it.
        file: in it, such as ``package/models/net.onnx``.
        architecture: where the file holds weights: network of ``efficientnet_lite_pytorch`` that takes them, such as
            ``efficientnet-lite1``.
        side: height and width of the exported network's input; with ``architecture`` only.
    """

    distribution: str
    file: RelativePath
    architecture: str | None = None
    side: int = Field(default=224, ge=1)


class TorchvisionSource(StrictModel):
    """An architecture of ``torchvision.models``.

    Attributes:
        architecture: name of its function, such as ``resnet18``.
        weights: file under the folder of external models with its ``state_dict``; None for random ones.
        seed: of the random weights.
        classes: outputs of the network.
        side: height and width of the input.
    """

    architecture: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    weights: RelativePath | None = None
    seed: int = 0
    classes: int = Field(default=1000, ge=1)
    side: int = Field(default=224, ge=1)


def package_model(source: PackageSource) -> Path:
    """The ONNX file of an installed package, exported where the package holds weights.

    Raises:
        MissingError: the package is missing.
        ModelError: it has no such file, or the weights do not fit.
    """
    file = _package_file(source)
    if source.architecture is None:
        return file
    name = source.architecture

    def build() -> nn.Module:
        try:
            from efficientnet_lite_pytorch import EfficientNet
        except ImportError as error:
            raise MissingError(f"{name}: {how_to_install('packages')}") from error
        network: nn.Module = EfficientNet.from_name(name)
        return _with_weights(network, file)

    return _exported(content_key(source, file.stat().st_size, EXPORT), source.side, build)


def torchvision_model(source: TorchvisionSource) -> Path:
    """The exported architecture.

    Raises:
        MissingError: torchvision is missing.
        ModelError: the weights are missing, or there is no such architecture.
    """
    weights = None if source.weights is None else paths.external_models(source.weights)

    def build() -> nn.Module:
        try:
            import torch

            models = import_torchvision().models
        except ImportError as error:
            raise MissingError(f"torchvision cannot be imported ({error}): {how_to_install('zoo')}") from error
        if source.architecture not in models.list_models():
            raise ModelError(
                f"torchvision has no architecture {source.architecture!r}; see torchvision.models"
                f"{hint(source.architecture, models.list_models())}"
            )
        with torch.random.fork_rng():
            torch.manual_seed(source.seed)
            network: nn.Module = models.get_model(source.architecture, weights=None, num_classes=source.classes)
        return network if weights is None else _with_weights(network, weights)

    return _exported(content_key(source, EXPORT), source.side, build)


def model_metadata(path: Path) -> dict[str, str]:
    """Metadata of an ONNX file, such as the characters that a recognition network tells apart.

    Raises:
        ModelError: the file is no ONNX model.
    """
    return {entry.key: entry.value for entry in read_proto(path).metadata_props}


def output_names(path: Path) -> list[str]:
    """Names of the outputs of an ONNX file, in its order; raises as :func:`model_metadata`."""
    return [output.name for output in read_proto(path).graph.output]


def _package_file(source: PackageSource) -> Path:
    try:
        files = metadata.files(source.distribution) or []
    except metadata.PackageNotFoundError as error:
        raise MissingError(
            f"package {source.distribution} is not installed: pip install {source.distribution}, "
            f"or {how_to_install('packages')} for all that bundled cards use"
        ) from error
    for file in files:
        if file.as_posix() == source.file:
            return Path(str(file.locate()))
    raise ModelError(f"package {source.distribution} has no file {source.file}")


def _with_weights(network: nn.Module, file: Path) -> nn.Module:
    """``network`` with the ``state_dict`` in ``file``, which is read without executing anything in it."""
    import pickle

    import torch

    try:
        network.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    except (OSError, EOFError, RuntimeError, TypeError, AttributeError, pickle.UnpicklingError) as error:
        raise ModelError(f"{file}: holds no weights for this network: {' '.join(str(error).split())[:300]}") from error
    return network


def _exported(key: str, side: int, build: Callable[[], nn.Module]) -> Path:
    """The ONNX file of the network that ``build`` makes, from the cache if it is there."""
    path = user_cache(f"models/{key}.onnx")
    if path is None:
        raise ModelError("the exported network is kept below the home folder, and there is none: set XDG_CACHE_HOME")
    if not path.is_file():
        network = build()
        write_atomically(path, _export(network, side))
    return path


def _export(network: Any, side: int) -> bytes:
    """ONNX, opset :data:`OPSET`, batch 1, RGB; the same bytes for the same network and version of PyTorch.

    The statistics of ``network`` are folded, in place.
    """
    import onnx
    import torch

    _fold_statistics(network)
    buffer = io.BytesIO()
    torch.onnx.export(
        network.eval(),
        (torch.zeros(1, 3, side, side),),
        buffer,
        input_names=[INPUT],
        output_names=[OUTPUT],
        opset_version=OPSET,
        dynamo=False,
    )
    model = onnx.load_from_string(buffer.getvalue())
    model.ClearField("doc_string")
    return bytes(model.SerializeToString(deterministic=True))


def _fold_statistics(network: nn.Module) -> None:
    """Let every batch normalisation have mean 0 and variance 1, and weight and bias that compute the same.

    The exporter multiplies convolutions by ``weight / sqrt(variance + eps)``. PyTorch's square root is that of MKL,
    whose last bit depends on the processor (EfficientNet-Lite1: three different files with ``MKL_CBWR``
    ``COMPATIBLE``, ``AVX2`` and ``AVX512``), numpy's is exactly rounded; ``1 / sqrt(1 + 0)`` is exact everywhere.
    """
    import torch
    from torch.nn.modules.batchnorm import _BatchNorm

    for layer in network.modules():
        if not isinstance(layer, _BatchNorm) or layer.running_var is None or layer.running_mean is None:
            continue
        scale = 1 / np.sqrt(layer.running_var.numpy().astype(np.float64) + layer.eps)
        shift = -layer.running_mean.numpy().astype(np.float64) * scale
        if layer.affine:
            weight, bias = (each.detach().numpy().astype(np.float64) for each in (layer.weight, layer.bias))
            scale, shift = weight * scale, weight * shift + bias
        layer.weight, layer.bias = (
            torch.nn.Parameter(torch.from_numpy(each.astype(np.float32))) for each in (scale, shift)
        )
        layer.running_mean.zero_()
        layer.running_var.fill_(1)
        layer.affine, layer.eps = True, 0.0
