"""Names from strangers' files as names of files: no writer leaves its folder, hides a file, or takes another's name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.cli.vendor import hrt_model_exec, infer
from engine.debug.analysis import data, plots, report, verify
from engine.ir import FileNames, file_name, file_names
from engine.perf.report import write_report
from tests.engine.compile.compiled import residual

NAMES = [
    "../../outside",
    "/outside",
    "..",
    ".",
    "",
    ".hidden",
    "a/b",
    "a_b",
    "A_B",
    "a\\b",
    "a\0b",
    "e\u0301",
    "x" * 10_000,
    "x" * 10_001,
    "\u00e9" * 500,
]
"""Distinct names of tensors and nodes, as files may hold them."""


class TestNames:
    @pytest.mark.parametrize("name", NAMES)
    def test_a_name_is_one_visible_file_in_the_folder(self, name: str, tmp_path: Path) -> None:
        file = file_name(name)
        assert Path(file).name == file
        assert not file.startswith(".")
        assert len(file.encode()) <= 120
        (tmp_path / f".{file}.{'0' * 32}").touch()  # as a temporary name is made of it
        (tmp_path / file).touch()

    def test_plain_names_stay(self) -> None:
        for name in ("conv_1", "model-v2.bin", "é", "x" * 120):
            assert file_name(name) == name
        assert file_name("conv/1:w") == "conv_1_w"
        assert file_name(".hidden") == "_hidden"
        assert file_name("\ud800") == "_"

    def test_long_names_differ_where_their_ends_do(self) -> None:
        first, second = (file_name("x" * 200 + end) for end in "ab")
        assert first != second
        assert first[:100] == second[:100] == "x" * 100

    def test_no_two_names_are_one_file_capitals_or_not(self) -> None:
        found = file_names(NAMES)
        assert list(found) == NAMES
        assert len({file.casefold() for file in found.values()}) == len(NAMES)
        assert found["a/b"] == "a_b"  # the first keeps its name
        assert found["a_b"].startswith("a_b_")
        assert file_names(["a_b", "a/b"])["a_b"] == "a_b"

    def test_a_name_is_the_same_every_time(self) -> None:
        names = FileNames()
        assert [names[name] for name in ("a/b", "a_b", "a/b")] == [*file_names(["a/b", "a_b"]).values(), "a_b"]

    def test_a_name_that_is_called_as_another_s_substitute(self) -> None:
        taken = file_names(["a/b", "a_b"])["a_b"]
        assert len(set(file_names(["a/b", taken, "a_b"]).values())) == 3


def pages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """``hb_perf``: the model and its subgraphs are called so."""
    monkeypatch.setattr("engine.perf.report.structure_png", lambda structure: b"png")
    monkeypatch.setattr("engine.perf.report._render", lambda *_, **__: "page")
    for name in NAMES:
        compiled = residual()
        schedules = tuple(each.model_copy(update={"name": name}) for each in compiled.schedules)
        write_report(replace(compiled, name=name, schedules=schedules), folder)
    return 0


def pictures(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The debugger's histograms and boxes, and the pictures beside its page."""
    for form in ("distribution_png", "distribution_page", "channels_png", "channels_page"):
        monkeypatch.setattr(plots, form, lambda found: found)
    monkeypatch.setattr(plots, "save", lambda stem, png, page, to: (to / f"{stem}.png").write_text(png.node[:9]))
    found: Any = [SimpleNamespace(node=name) for name in NAMES]
    plots.draw_distributions(found, folder)
    plots.draw_channels(found, folder)
    return 2 * len(NAMES)


def page_of_pictures(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    page = SimpleNamespace(to_json=lambda: '{"layout": {}}')
    monkeypatch.setattr(report, "_pictures", lambda found: dict.fromkeys(NAMES, ("png", page)))
    monkeypatch.setattr(plots, "to_png", lambda figure: b"png")
    monkeypatch.setattr(report, "_drawn", lambda found: [])
    monkeypatch.setattr(report, "_targets", lambda found: {})
    monkeypatch.setattr(report, "rendered", lambda template, **_: "page")
    report.write_report(SimpleNamespace(identity=""), folder)  # type: ignore[arg-type]
    return len(NAMES) + 1


def verified(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """``hb_verifier``: both sides of every tensor."""
    names = FileNames()
    for name in NAMES:
        verify.save(verify.ComparedTensor(name, np.zeros(1), np.zeros(1)), folder, names)
    return 2 * len(NAMES)


def samples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Samples of inputs that are called so; they are found again."""
    given: Any = SimpleNamespace(read=lambda start, stop: {name: np.full(1, start) for name in NAMES})
    data.dump_samples(type("Data", (), {"__len__": lambda _: 2, "read": lambda _, a, b: given.read(a, b)})(), folder)
    for name, file in file_names(NAMES).items():
        assert len(data._sample_files(folder, name, file, len(NAMES))) == 2
    return 2 * len(NAMES)


def dumps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """``hrt_model_exec``: values of all nodes."""
    monkeypatch.setattr(hrt_model_exec, "DUMP_FOLDER", folder)
    values = {name: np.zeros(1, np.int8) for name in NAMES}
    hrt_model_exec._dump_values(values, tuple(hrt_model_exec.DumpFormat), 3, 1)
    return len(NAMES) * len(hrt_model_exec.DumpFormat)


def inferred(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """``hb_mapper infer``: outputs."""
    for step in ("load_config", "load_custom_operators", "is_compiled", "Session", "_read"):
        monkeypatch.setattr(infer, step, lambda *_, **__: SimpleNamespace(onnx_model=None))
    monkeypatch.setattr(infer, "is_compiled", lambda _: False)
    monkeypatch.setattr(infer, "_run", lambda *_: {name: np.zeros(1, np.float32) for name in NAMES})
    request: Any = SimpleNamespace(config="c", caffe=False, model="m", folder=folder)
    infer.run_infer(request, logging.getLogger("test"))
    return len(NAMES)


WRITERS: tuple[Callable[[Path, pytest.MonkeyPatch], int], ...] = (
    pages,
    pictures,
    page_of_pictures,
    verified,
    samples,
    dumps,
    inferred,
)
"""Every writer that calls files as a stranger says; each gives how many it must have written, 0 for any number."""


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Path]:
    """The folder of a writer; whatever is made beside it is a fault."""
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    yield folder
    own = {folder, *folder.parents}
    own = {folder, *folder.parents}
    beside = [path for path in tmp_path.rglob("*") if path not in own and folder not in path.parents]
    assert beside == []


@pytest.mark.parametrize("writer", WRITERS)
def test_every_writer_stays_in_its_folder_and_loses_nothing(
    writer: Callable[[Path, pytest.MonkeyPatch], int], inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = writer(inside, monkeypatch)
    files = [path for path in inside.rglob("*") if path.is_file()]
    assert files
    assert len(files) == expected or not expected
    assert not [path for path in files if path.name.startswith(".")]
    assert not Path("/outside").exists()
