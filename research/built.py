"""Rows of the corpus whose operators its reader does not know: their models are built and converted.

Reshapes, transposes, slices and reductions of maps of 50,000 elements: what single layers of these operators take.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.chips.latency import load_latency
from engine.compile.schedule import Schedule
from engine.convert import Draft, check
from engine.errors import ConfigError
from engine.terms import InputType
from research.corpus import MeasuredRow, network_of_row

Build = Callable[[dict[str, Any], Path], object]


def built_rows(rows: Iterable[MeasuredRow], script: Path) -> list[tuple[MeasuredRow, tuple[Schedule, ...]]]:
    """Rows at O2 that :func:`~research.corpus.network_of_row` does not read, with the schedules of their models.

    Args:
        rows: of a corpus.
        script: ``build_model.py`` beside it.

    Raises:
        ConfigError: there is no such script.
    """
    build = builder(script)
    found = []
    with TemporaryDirectory() as folder:
        target = Path(folder) / "model.onnx"
        for row in rows:
            plain = (row.optimize_level, row.compile_mode, row.core_num) == ("O2", "latency", 1)
            if plain and "wmode" not in row.spec and network_of_row(row, load_latency(row.march)) is None:
                build(row.spec, target)
                kind = InputType(row.spec.get("in_type", "featuremap"))
                found.append((row, check(target, Draft(row.march, input_type=kind)).compiled.schedules))
    return found


def builder(script: Path) -> Build:
    """The function of ``build_model.py`` that writes the model of a row.

    Raises:
        ConfigError: there is no such script.
    """
    spec = importlib.util.spec_from_file_location("build_model", script)
    if spec is None or spec.loader is None or not script.is_file():
        raise ConfigError(f"{script}: there is no script that builds the models of a corpus")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build: Build = module.build
    return build
