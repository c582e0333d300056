"""Modules that run when they are used: once, whole for every thread, and only those that were imported in the block."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from engine import deferral
from engine.deferral import DEFERRED, deferring

NAME = "deferred_module"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """One that takes a while, deferred."""
    (tmp_path / f"{NAME}.py").write_text(
        "import sys, time\nsys.deferred_runs.append(1)\nearly = 1\ntime.sleep(0.2)\nfrom deferred_module import early\n"
        "value = early + 2\n"
        "class Late:\n    number = 5\n    def __init__(self, value):\n        self.value = value\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(deferral, "DEFERRED", {NAME: frozenset({"Late"})})
    monkeypatch.setattr(sys, "deferred_runs", [], raising=False)
    with deferring():
        found = import_module(NAME)
    yield found
    del sys.modules[NAME]


def runs() -> int:
    """How often the module ran."""
    return len(vars(sys)["deferred_runs"])


def test_symbolic_dimensions_fortran_and_two_classes_of_rich_wait() -> None:
    assert {"sympy", "onnx_ir._symbolic_shapes", "numpy.f2py", "rich.markdown", "rich.traceback"} == set(DEFERRED)


def test_a_class_can_be_imported_before_its_module_runs(module: ModuleType) -> None:
    from deferred_module import Late  # type: ignore[import-not-found]

    assert runs() == 0
    assert str(int | Late).endswith("Late")  # in annotations
    assert Late.number == 5
    assert runs() == 1
    made = Late(7)
    assert made.value == 7
    assert type(made) is module.Late
    assert isinstance(made, Late)
    assert not isinstance(7, Late)


def test_a_deferred_module_runs_when_it_is_used(module: ModuleType) -> None:
    assert runs() == 0
    assert module.value == 3
    assert module.early == 1
    assert runs() == 1
    assert type(module) is ModuleType


def test_no_thread_sees_a_module_that_is_half_run(module: ModuleType) -> None:
    seen: list[object] = []
    start = threading.Barrier(8)

    def use() -> None:
        start.wait()
        seen.append(getattr(module, "value", None))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [3] * 8
    assert runs() == 1


def test_a_module_that_fails_can_be_tried_again(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "deferred_runs")
    with pytest.raises(AttributeError, match="deferred_runs"):
        _ = module.value
    monkeypatch.setattr(sys, "deferred_runs", [], raising=False)
    assert module.value == 3


def test_later_imports_do_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(sys.meta_path)
    with deferring():
        assert len(sys.meta_path) == len(before) + 1
    assert sys.meta_path == before
