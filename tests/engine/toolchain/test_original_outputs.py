"""The script that the toolchain's own Python runs, with a made-up runtime in its place."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from engine.toolchain import original_outputs


class Runtime:
    """Doubles its first input, and negates it."""

    output_names = ("double", "negative")

    def __init__(self, model_file: str) -> None:
        assert model_file == "m.onnx"

    def run_feature(self, names: list[str], feed: dict[str, np.ndarray], input_offset: int) -> list[np.ndarray]:
        assert (names, input_offset) == (["double", "negative"], 0), "128 is subtracted already"
        return [2 * feed["a"], -feed["a"] + feed["b__c"]]


class RuntimeOf1243(Runtime):
    """The same with the one method that version 1.24.3 has."""

    run = Runtime.run_feature
    run_feature = property()  # type: ignore[assignment]


@pytest.mark.parametrize("runtime", [Runtime, RuntimeOf1243])
def test_every_sample_is_run_and_keyed_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: type[Runtime]
) -> None:
    module = ModuleType("horizon_tc_ui")
    module.HB_ONNXRuntime = runtime
    monkeypatch.setitem(sys.modules, "horizon_tc_ui", module)
    given = {"in0__a": [1], "in0__b__c": [5], "in1__a": [2], "in1__b__c": [6], "in3__a": [9]}
    np.savez(tmp_path / "in.npz", **{key: np.asarray(value) for key, value in given.items()})
    original_outputs.main("m.onnx", str(tmp_path / "in.npz"), str(tmp_path / "out.npz"))
    with np.load(tmp_path / "out.npz") as found:
        assert {key: found[key].tolist() for key in found.files} == {
            "out0__double": [2],
            "out0__negative": [4],
            "out1__double": [4],
            "out1__negative": [4],
        }


def test_it_needs_nothing_that_the_toolchains_python_lacks() -> None:
    tree = ast.parse(inspect.getsource(original_outputs), feature_version=(3, 6))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported == {"importlib", "sys", "numpy"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom | ast.JoinedStr)]
