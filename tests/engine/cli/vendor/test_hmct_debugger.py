"""The debugger's command line: lists as a shell leaves them, flags, what reaches the functions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from engine.cli.vendor import hmct_debugger
from engine.cli.vendor.hmct_debugger import app, read_count, read_flag, read_names, read_nested
from engine.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("Conv_2", ["Conv_2"]),
        ("'Conv_2'", ["Conv_2"]),
        ("['Conv_2', \"Conv_90\"]", ["Conv_2", "Conv_90"]),
        ("[Conv_2,Conv_90,]", ["Conv_2", "Conv_90"]),
        ("[]", []),
        ("[[a],[b, c]]", [["a"], ["b", "c"]]),
        (" [ ['a'] , ['b'] ] ", [["a"], ["b"]]),
        ("[[]]", [[]]),
    ],
)
def test_lists(text: str | None, expected: object) -> None:
    assert read_nested(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [("[a", "not closed"), ("[[a]", "an inner list is not closed"), ("[[a],b]", "not closed|not both")],
)
def test_lists_that_are_not_closed(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_nested(text)


def test_names_are_one_list() -> None:
    assert read_names("[a,b]") == ["a", "b"]
    with pytest.raises(ConfigError, match="expected a list of names, not nested lists"):
        read_names("[[a]]")


@pytest.mark.parametrize(("text", "expected"), [("True", True), ("false", False), ("TRUE", True)])
def test_flags(text: str, expected: bool) -> None:
    assert read_flag("-v", text) is expected


@pytest.mark.parametrize(
    ("text", "expected"), [(None, (None, 8)), ("all", (None, None)), ("None", (None, None)), ("3", (3, None))]
)
def test_the_number_of_samples(text: str | None, expected: tuple[int | None, int | None]) -> None:
    assert read_count("-d", text) == expected


def test_what_is_no_number_of_samples() -> None:
    with pytest.raises(ConfigError, match="-d many: expected a number of samples, or all"):
        read_count("-d", "many")


@pytest.mark.parametrize("text", ["1", "yes", ""])
def test_what_is_no_flag(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--verbose {text}: expected True or False"):
        read_flag("--verbose", text)


@pytest.mark.parametrize(
    ("command", "options", "arguments"),
    [
        (
            "get-sensitivity-of-nodes",
            ["-m", "[mse,sqnr]", "-o", "out", "-n", "weight", "-d", "3", "-v", "True", "-i", "[a]"],
            ("M", ["mse", "sqnr"], "D", "out", "weight", 3, True, ["a"]),
        ),
        ("get_sensitivity_of_nodes", [], ("M", ["cosine-similarity"], "D", None, "node", None, False, None)),
        (
            "plot-acc-error",
            ["-s", "S", "-q", "[[a],[b]]", "-nq", "c", "-m", "mse", "-a", "true"],
            ("S", "D", "M", [["a"], ["b"]], ["c"], "mse", True),
        ),
        ("plot-distribution", ["-n", "[a,b]", "-s", "S"], ("S", "M", "D", ["a", "b"])),
        ("get-channelwise-data-distribution", ["-n", "a", "-a", "2"], (".", "M", "D", ["a"], 2)),
        ("sensitivity-analysis", ["-p", "0.5", "-d", "2"], ("M", "D", 0.5, 2, False, ".")),
    ],
)
def test_what_reaches_the_functions(
    monkeypatch: pytest.MonkeyPatch, command: str, options: list[str], arguments: tuple[Any, ...]
) -> None:
    called: list[tuple[Any, ...]] = []
    most: list[Any] = []
    name = command.replace("-", "_")

    def called_with(
        *given: object, watch: Callable[[float], None], **options: object
    ) -> SimpleNamespace | dict[str, float]:
        watch(0.5)
        called.append(given)
        most.extend(options.values())
        logging.getLogger("engine.debug.analysis.plots").info("written: %s", "a.png")
        return {"a": 1.0} if "nodes" in name else SimpleNamespace(scores={"a": 1, "b": 2}, causes={"a": "weight"})

    monkeypatch.setattr(f"engine.debug.{name}", called_with)
    result = CliRunner().invoke(app, [command, "M", "D", *options])
    assert result.exit_code == 0, result.output
    ((*given,),) = called
    assert tuple(str(each) if isinstance(each, Path) else each for each in given) == arguments
    assert most == ([] if "sensitivity_of" not in name else [None] if "-d" in options else [8])
    assert ("written: a.png\n" in result.output) is ("sensitivity_of" not in name)
    if "-v" not in options and "sensitivity" in name:
        assert "1 nodes ranked; -v True" in result.output or "1 of 2 nodes are sensitive" in result.output


def test_an_error_is_a_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise ConfigError("no such node")

    monkeypatch.setattr(hmct_debugger, "app", refuse)
    with pytest.raises(SystemExit) as caught:
        hmct_debugger.main()
    assert caught.value.code == 255
    assert capsys.readouterr().err == "error: no such node\n"
