"""One small network, converted once for all tests that look at results."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.config import load_config
from engine.convert import ConversionResult, convert
from tests.engine.conformance.models import write_network


@dataclass(frozen=True)
class Converted:
    """A result, the folder of its configuration, and what the log said."""

    result: ConversionResult
    folder: Path
    log: tuple[str, ...]


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    folder = tmp_path_factory.mktemp("converted")
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("engine")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            result = convert(load_config(write_network(folder)))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    return Converted(result, folder, tuple(lines))
