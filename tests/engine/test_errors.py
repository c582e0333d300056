"""What callers may rely on of the exceptions: the exit code, and which ``except`` catches which."""

from __future__ import annotations

import inspect

import pytest

from engine import errors
from engine.chips import March
from engine.errors import ConfigError, MissingError, OutputError, PtqlabError, ToolchainError, hint

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", ALL)
def test_commands_exit_with_255_unless_the_user_s_toolchain_failed(kind: type[PtqlabError]) -> None:
    assert kind.exit_code == (3 if kind is ToolchainError else 255)


def test_what_is_missing_is_a_matter_of_configuration() -> None:
    assert issubclass(MissingError, ConfigError)


def test_a_result_that_cannot_be_written_is_an_error_of_the_system_too() -> None:
    with pytest.raises(OSError, match="disk"):
        raise OutputError("the disk is full")


def test_no_other_error_is_a_kind_of_another() -> None:
    others = {
        kind.__name__: {base.__name__ for base in kind.__mro__[1:] if base in ALL} - {"PtqlabError"} for kind in ALL
    }
    assert {name: bases for name, bases in others.items() if bases} == {
        "MissingError": {"ConfigError"},
        "ShipError": {"UnsupportedError"},
    }


def test_the_nearest_name_is_hinted_at() -> None:
    assert hint("lable", ["label", "data"]) == "; did you mean 'label'?"
    assert hint("bayse-e", March) == "; did you mean 'bayes-e'?"
    assert hint("xyz", ["label", "data"]) == ""
