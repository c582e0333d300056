"""What a change recomputes: exactly the stages whose sources, data files or tools it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

from engine import fingerprint
from engine.fingerprint import fingerprint_of
from harness.backends.foreign import HB_MAPPER, hb_mapper_tool
from harness.backends.pipeline import all_stages, planned, stages_of, version_of_stages
from harness.suites.settings import Engine, Settings
from harness.trials.configuration import configuration
from harness.zoo.cards import load_card
from tests.harness import fakes

ROOT = Path(__file__).resolve().parents[3]
ALL = {stage.name for stage in all_stages()}
DIGESTS = {"digest data", "digest float", "digest models"}
JUDGING = {"judge", "score"}
OUTSIDE = {"float", *JUDGING, "onnxruntime", "own engine", "hb_mapper", *DIGESTS}
"""Stages that feed a float model, call another engine, score or take digests: no source of a conversion is theirs."""
PLACING = {"request", "decompose", "place", "admit"}
COMPILING = {"rebatch", "compile"}
BROKEN = {"broken", "broken, foreign"}
SIMULATING = {"correct", "compare", "measure", "simulate", *BROKEN}
TABLES = {"footprint", "nodes"}
DATA = {"open data set", "take images", "feed", "float", "onnxruntime", "own engine", "hb_mapper"}

DEPENDENT: dict[str, set[str]] = {
    "engine/fingerprint.py": ALL,
    "engine/convert/runner.py": ALL,
    "engine/config/parameters.py": ALL,
    "engine/frontend/onnx.py": ALL - {"equalize"},  # data sets convert colours with the room of it
    "engine/optimize/dense.py": ALL
    - OUTSIDE
    - {"read", "prepare", "equalize", "doubts", "feed", "open data set", "take images"},
    "engine/chips/bayes-e.yaml": ALL,  # the names of marches and the dialect of a configuration are in it
    "engine/calibrate/methods/kl.py": {*PLACING, "statistics", "calibrate", "correct", "compare", "measure"},
    "engine/calibrate/corrections/equalize.py": {"equalize"},
    "engine/place/devices.py": {*PLACING, "calibrate", "correct", "quantize", *COMPILING},
    "engine/quantize/lowering.py": {"correct", "quantize", *COMPILING},
    "engine/simulate/fast.py": SIMULATING,
    "engine/evaluate/integer_bias.py": {"correct"},
    "engine/compile/schedule.py": {*COMPILING, *SIMULATING, *TABLES},
    "engine/chips/latency/bayes-e.yaml": {*COMPILING, *SIMULATING, *TABLES},
    "engine/perf/performance.py": TABLES,
    "engine/convert/stages/quantize.py": {"quantize"},
    "engine/convert/tables.py": TABLES,
    "harness/zoo/cards.py": {*DATA, *JUDGING, *DIGESTS},  # whether labels are the float model's
    "harness/zoo/float_baseline.py": {"float"},
    "harness/datasets/files.py": {*DATA, *JUDGING, *DIGESTS},
    "harness/metrics/detection.py": {*DATA, *JUDGING, *DIGESTS},
    "harness/trials/comparison.py": {*JUDGING, "simulate", "onnxruntime", "own engine", "hb_mapper"},
    "harness/backends/stages/score.py": JUDGING,
    "harness/backends/foreign.py": {"onnxruntime", "own engine", "hb_mapper"},
    "engine/convert/converter.py": set(),
    "engine/cli/tables.py": set(),
    "engine/cli/lab/bisect.py": set(),
    "engine/debug/analysis/plots.py": set(),
    "engine/debug/bisection/breaks.py": BROKEN,
    "engine/floats/health.py": {"compare", "correct", "measure", *BROKEN},
    "engine/calibrate/data/doubts.py": {"doubts"},
    "engine/tune/mixed.py": set(),
    "harness/cli/main.py": set(),
    "harness/gates/judge.py": set(),
    "harness/report/page.py": set(),
    "harness/suites/expansion.py": set(),
}
"""Stages by the file in which a byte changes."""


def digests() -> dict[str, str]:
    return {stage.name: fingerprint_of(stage.module).digest for stage in all_stages()}


def forget() -> None:
    """Digests are taken once per process; imports and versions need not be looked up again, as none changes here."""
    for cached in (fingerprint_of, fingerprint._digest):
        cached.cache_clear()


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Lets a tool of that name be newer."""

    def fake(tool: str) -> None:
        monkeypatch.setattr(metadata, "version", faked(tool))
        fingerprint.version_of.cache_clear()
        forget()

    yield fake
    monkeypatch.undo()
    fingerprint.version_of.cache_clear()
    forget()


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the packages, which fingerprints are taken of."""
    root = tmp_path_factory.mktemp("packages")
    for package in ("engine", "harness"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    caches = (fingerprint._source, fingerprint._data_of, fingerprint._imports, fingerprint._links)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "_folder", lambda package: root / package)
        for cached in caches:
            cached.cache_clear()
        forget()
        yield root
    for cached in caches:
        cached.cache_clear()
    forget()


@pytest.fixture(scope="module")
def before(copied: Path) -> dict[str, str]:
    return digests()


def test_the_table_names_files_that_are_there() -> None:
    assert not [name for name in DEPENDENT if not (ROOT / name).is_file()]


@pytest.mark.parametrize("name", DEPENDENT)
def test_a_changed_byte_recomputes_exactly_the_stages_that_depend_on_it(
    name: str, copied: Path, before: dict[str, str]
) -> None:
    path = copied / name
    content = path.read_bytes()
    path.write_bytes(content + b"\n")
    forget()
    try:
        after = digests()
    finally:
        path.write_bytes(content)
        forget()
    assert {stage for stage in ALL if after[stage] != before[stage]} == DEPENDENT[name]


def faked(newer: str) -> Callable[[str], str]:
    real = metadata.version
    return lambda name: "999.0" if name == newer else real(name)


@pytest.mark.parametrize(
    ("tool", "some", "none"),
    [
        ("onnxruntime", {"float", "calibrate", "simulate", "onnxruntime", "own engine"}, {"read", "optimize", "score"}),
        ("numba", {"calibrate", "simulate"}, {"read", "optimize", "float", "score"}),
        ("numpy", ALL, set()),
    ],
)
def test_a_newer_tool_recomputes_the_stages_that_run_it(
    tool: str, some: set[str], none: set[str], newer: Callable[[str], None]
) -> None:
    forget()
    usual = digests()
    newer(tool)
    changed = {stage for stage, digest in digests().items() if digest != usual[stage]}
    assert some <= changed
    assert not none & changed


def version(settings: Settings) -> str:
    card = load_card("mnist_lenet")
    return version_of_stages(settings, configuration(card, fakes.spec(card.name, settings), (), Path()))


def test_a_trial_s_version_is_that_of_the_stages_that_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, corrected = Settings(), Settings(integer_bias_correction=True)
    foreign = Settings(engine=Engine.ONNXRUNTIME)
    kinds = (plain, corrected, foreign)
    usual = [version(settings) for settings in kinds]
    assert len(set(usual)) == len(kinds)
    assert version(Settings(max_percentile=0.99)) == usual[0]
    real = fingerprint._digest

    def edited(path: Path) -> str:
        return "edited" if path.name == "integer_bias.py" else real(path)

    monkeypatch.setattr(fingerprint, "_digest", edited)
    fingerprint_of.cache_clear()
    after = [version(settings) for settings in kinds]
    fingerprint_of.cache_clear()
    assert [old == new for old, new in zip(usual, after, strict=True)] == [True, False, True]


def test_a_newer_command_of_the_vendor_recomputes_its_trials_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(engine=Engine.HB_MAPPER)
    monkeypatch.delenv(HB_MAPPER, raising=False)
    assert hb_mapper_tool() == "absent"
    found = {version(settings)}
    plain = version(Settings())
    for number in ("1.23.8", "1.24.3"):
        command = tmp_path / number / "hb_mapper"
        command.parent.mkdir()
        command.write_text(f"#!/bin/sh\necho hb_mapper, version {number}\n")
        command.chmod(0o755)
        monkeypatch.setenv(HB_MAPPER, str(command))
        assert number in hb_mapper_tool()
        found.add(version(settings))
        assert version(Settings()) == plain
    assert len(found) == 3


def stages(**settings: object) -> set[str]:
    """Names of the stages that a trial with these settings runs."""
    chosen = Settings.model_validate(settings)
    config = configuration(load_card("mnist_lenet"), fakes.spec("mnist_lenet", chosen), (), Path())
    return {stage.name for stage in stages_of(chosen, planned(chosen, config))}


def test_trials_run_what_their_engine_and_their_int16_policy_need() -> None:
    bundled = stages()
    assert {"statistics", "calibrate", "quantize", "compile", "simulate", "footprint", "nodes", *JUDGING} <= bundled
    assert not {"sensitivity", "onnxruntime", "hb_mapper"} & bundled
    assert stages(int16={"top_k": 2}) == bundled | {"sensitivity"}
    others = {"open data set", "take images", "doubts", "float", *JUDGING, "onnxruntime", "broken, foreign"}
    assert stages(engine="onnxruntime") - DIGESTS == others
    foreign = stages(engine="hb_mapper")
    assert {"hb_mapper", "simulate", "footprint"} <= foreign
    assert not {"quantize", "nodes", "statistics", "sensitivity"} & foreign
    assert {"statistics", "sensitivity"} <= stages(engine="hb_mapper", int16={"top_k": 2})
