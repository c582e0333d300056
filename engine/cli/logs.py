"""Log lines of the commands: to the terminal and to a file, and errors as one line with the right exit code."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import typer

from engine.cli.console import say
from engine.errors import NO_MEMORY, PtqlabError, system_message
from engine.visible import VisibleFormatter

_FORMAT = "%(asctime)s %(levelname)s %(message)s"


@contextmanager
def logged(command: str, file: Path) -> Iterator[logging.Logger]:
    """Run a command's body: its log goes to the terminal and to ``file``; a user error ends it with its exit code.

    Raises:
        typer.Exit: a :class:`~engine.errors.PtqlabError` was raised inside, the memory did not suffice, or the system
            refused something; it has been logged.
    """
    logger = logging.getLogger("engine")
    handlers = _handlers(file)
    level = logger.level
    logger.setLevel(logging.INFO)
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield logger
    except MemoryError as error:
        logger.error("%s", NO_MEMORY)
        logger.error("exception in command: %s", command)
        raise typer.Exit(PtqlabError.exit_code) from error
    except PtqlabError as error:
        logger.error("%s", error)
        logger.error("exception in command: %s", command)
        raise typer.Exit(error.exit_code) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        logger.error("%s", system_message(error))
        logger.error("exception in command: %s", command)
        raise typer.Exit(PtqlabError.exit_code) from error
    finally:
        logger.setLevel(level)
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


@contextmanager
def spoken(name: str, *, err: bool = False) -> Iterator[None]:
    """Print what the logger ``name`` reports inside, without time and level; ``err``: to standard error."""
    logger, handler = logging.getLogger(name), _Spoken(err)
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _Spoken(logging.Handler):
    def __init__(self, err: bool) -> None:
        super().__init__()
        self._err = err

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message."""
        say(record.getMessage(), err=self._err)


class _LogFile(logging.FileHandler):
    """A file that may become full: the first line that cannot be written is reported, and nothing more is written."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name of the base class
        """Stop writing where the system refuses."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            self.setLevel(logging.CRITICAL + 1)
            _tell_unwritable(Path(self.baseFilename), error)
        else:
            super().handleError(record)

    def close(self) -> None:
        """As in the base class; what cannot be flushed is dropped."""
        with suppress(OSError):
            super().close()


def _tell_unwritable(file: Path, error: OSError) -> None:
    say(f"{file}: cannot be written ({error.strerror}); the log goes only to the terminal", err=True)


def _handlers(file: Path) -> list[logging.Handler]:
    """To the terminal, and to ``file`` where it can be written; characters that they cannot show are escaped."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stdout)]
    try:
        handlers.append(_LogFile(file, mode="w", encoding="utf-8", errors="backslashreplace"))
    except OSError as error:
        _tell_unwritable(file, error)
    for handler in handlers:
        handler.setFormatter(VisibleFormatter(_FORMAT))
    return handlers
