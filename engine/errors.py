"""The exceptions that users of the engine see.

Every message says what was given, where, and what is allowed. Commands print the message and exit with
:attr:`PtqlabError.exit_code`; a traceback is a defect.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

NO_MEMORY = "this input needs more memory than this machine has or this process may use"
"""Message of commands if Python or a library raises :class:`MemoryError`."""


def system_message(error: OSError) -> str:
    """Message of commands if the system refuses an operation: the file, if there is one, and the reason."""
    what = f"{error.filename}: " if error.filename else ""
    advice = "; raise the limit (ulimit -n)" if error.errno in (errno.EMFILE, errno.ENFILE) else ""
    return f"{what}{error.strerror or error}{advice}"


def hint(wrong: str, allowed: Iterable[str]) -> str:
    """The name of ``allowed`` that ``wrong`` may have meant, as the end of a message; empty if none is near."""
    near = difflib.get_close_matches(wrong, list(map(str, allowed)), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


class PtqlabError(Exception):
    """Base of all errors that stem from what the user gave; ``exit_code`` is the status that commands exit with."""

    exit_code = 255


class ConfigError(PtqlabError):
    """A YAML file, option or parameter combination is wrong: names file, key, value and what is allowed."""


class ModelError(PtqlabError):
    """A model file cannot be read or is not a valid model for the stage that it was given to."""


class MissingError(ConfigError):
    """This machine lacks something: a package, a file, a command. The message says how to get it."""


class UnsupportedError(PtqlabError):
    """The model is valid but holds something that the chosen march or ptqlab cannot convert."""


class ShipError(UnsupportedError):
    """Something of a conversion cannot be handed to the original toolchain: names it, why, and what to use instead.

    Attributes:
        reason: what cannot be carried over, and why.
        remedy: what to use instead.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


class ToolchainError(PtqlabError):
    """The user's own toolchain failed, took too long or wrote no model: names its reason in one line."""

    exit_code = 3


class OptimizeError(PtqlabError):
    """An optimisation pass left a graph that does not hold together, a defect of ptqlab: names pass and node."""


class CalibrationDataError(PtqlabError):
    """Calibration data are missing, or have the wrong size, type or values: names the file and the expectation."""


class ContainerError(PtqlabError):
    """A ``.bin`` file is damaged, truncated, or of an unknown version."""


class InferenceError(PtqlabError):
    """A session was fed inputs of the wrong name, shape or type."""


class OutputError(PtqlabError, OSError):
    """A result cannot be written: names the file and why."""
