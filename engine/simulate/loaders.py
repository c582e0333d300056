"""Opening model files by their first bytes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import onnx_ir as ir

from engine.errors import ModelError
from engine.ir import load_model, notice_length

Loader = Callable[[Path], ir.Model]


class LoaderRegistry:
    """Formats other than ONNX: magic bytes and the function that reads the quantised model from such a file."""

    def __init__(self, providers: tuple[str, ...]) -> None:
        """Args: providers, modules that register their formats when they are imported; imported when first needed."""
        self._providers = providers
        self._loaders: dict[bytes, Loader] = {}

    def register(self, magic: bytes, loader: Loader) -> None:
        """Read files that begin with ``magic`` with ``loader``."""
        self._loaders[magic] = loader

    def open(self, path: Path) -> ir.Model:
        """The model in ``path``, an ONNX file or one of a registered format.

        Raises:
            ModelError: the file is missing or is neither.
        """
        if not path.is_file():
            raise ModelError(f"{path}: no such model file")
        if path.suffix == ".onnx":
            return load_model(path)
        for provider in self._providers:
            import_module(provider)
        with path.open("rb") as stream:
            stream.seek(notice_length(stream))
            start = stream.read(max(map(len, self._loaders), default=0))
        for magic, loader in self._loaders.items():
            if start.startswith(magic):
                return loader(path)
        return load_model(path)


REGISTRY = LoaderRegistry(providers=("engine.compile",))

register_loader = REGISTRY.register
open_model = REGISTRY.open
