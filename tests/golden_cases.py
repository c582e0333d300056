"""Reading golden cases: a quantised model with the inputs and outputs that the original toolchain computed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BUNDLED = Path(__file__).resolve().parent / "golden"


@dataclass(frozen=True)
class GoldenCase:
    """One model file and its samples: inputs and expected outputs by name, each a list with one array per sample."""

    model: Path
    arrays: Path

    @property
    def samples(self) -> list[tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]]:
        """Inputs and expected outputs of every sample."""
        with np.load(self.arrays) as data:
            prefixes = sorted({key.split("__")[0] for key in data if key.startswith("in")})
            return [
                (
                    {_name(key): data[key] for key in data if key.startswith(f"{prefix}__")},
                    {_name(key): data[key] for key in data if key.startswith(f"out{prefix.removeprefix('in')}__")},
                )
                for prefix in prefixes
            ]

    def __str__(self) -> str:
        return self.model.name.removesuffix(".onnx").removesuffix(".quant")


def operator_cases(folder: Path) -> list[GoldenCase]:
    """Single-operator cases under ``folder``."""
    return [GoldenCase(model, model.with_suffix(".npz")) for model in sorted((folder / "operators").glob("*.onnx"))]


def conversion_cases(folder: Path) -> list[GoldenCase]:
    """Whole quantised networks under ``folder``."""
    models = sorted((folder / "conversions").glob("*.quant.onnx"))
    return [GoldenCase(model, model.with_name(model.name.replace(".quant.onnx", ".npz"))) for model in models]


def _name(key: str) -> str:
    return key.split("__", 1)[1]
