"""How far a pass over calibration data has come, kept in a file so that it can go on after it was cut off."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from engine.calibrate.statistics.archive import DAMAGED, Arrays, read_archive, write_archive
from engine.calibrate.statistics.observers import DistributionObserver
from engine.errors import OutputError

logger = logging.getLogger(__name__)

FORMAT = 4
"""Version of the file format."""

SECONDS = 10.0
"""Least time between two writings of the file."""

_HEADER = "header"


class Progress:
    """Observers' states after every look at the data, and within the look that is going on.

    A pass makes its looks in an order that its input determines, so that they are known by their number. A file that
    is damaged, or that holds other tensors than are looked at, counts as none.

    Args:
        path: file ``.npz``; need not exist. What names it must determine the looks: the model, the data, the options.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._looks = 0
        self._past: Arrays = {}
        self._found, self._last, self._groups = _read(self._path)
        self._written = time.monotonic()
        self._noted = True

    def begin(self, observers: Mapping[str, DistributionObserver], groups: int) -> int:
        """Begin the next look, at ``groups`` groups of samples: how many of them ``observers`` have now seen."""
        if self._looks > self._last:
            return 0
        states = {name: _part(self._found, self._prefix(name)) for name in observers}
        if any(states[name].keys() != observer.state().keys() for name, observer in observers.items()):
            logger.warning("%s: belongs to another pass; starting again", self._path)
            self._last = -1
            return 0
        for name, observer in observers.items():
            observer.restore(states[name])
        if self._looks == self._last:
            logger.info(
                "Calibration statistics: continuing from %s, %d of %d groups.", self._path, self._groups, groups
            )
            return self._groups
        return groups

    def advance(self, observers: Mapping[str, DistributionObserver], seen: int) -> None:
        """``observers`` have now seen ``seen`` groups of the look: write that down if the last time is long ago."""
        if not self._noted or time.monotonic() - self._written < SECONDS:
            return
        header = {_HEADER: np.asarray([FORMAT, self._looks, seen], np.int64)}
        try:
            write_archive(self._path, header | self._past | self._states(observers), compress=False)
        except OutputError as error:
            logger.warning("%s; the progress of the pass is not saved", error)
            self._noted = False
        self._written = time.monotonic()

    def end(self, observers: Mapping[str, DistributionObserver]) -> None:
        """The look is complete."""
        self._past |= self._states(observers)
        self._looks += 1

    def discard(self) -> None:
        """The pass is complete: the file is of no more use."""
        with suppress(OSError):
            self._path.unlink()

    def _states(self, observers: Mapping[str, DistributionObserver]) -> Arrays:
        return {
            self._prefix(name) + key: array
            for name, observer in observers.items()
            for key, array in observer.state().items()
        }

    def _prefix(self, tensor: str) -> str:
        return f"{self._looks}/{tensor}/"


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}


def _read(path: Path) -> tuple[Arrays, int, int]:
    """What is in the file, the number of the look that was going on, -1 for none, and the groups that it had seen."""
    if not os.path.isfile(path):
        return {}, -1, 0
    try:
        arrays = read_archive(path)
        version, look, groups = (int(value) for value in arrays.pop(_HEADER))
        if version != FORMAT:
            raise ValueError(f"version {version}; this release reads {FORMAT}")
    except DAMAGED as error:
        logger.warning("%s: not readable (%s); starting again", path, error)
        return {}, -1, 0
    return arrays, look, groups
