"""Where the baseline of a suite is."""

from __future__ import annotations

from pathlib import Path

from harness.suites.suite import open_suite
from harness.sweeps.baselines import alias_folder, find_baseline, resolve_baseline


def test_a_bundled_suite_has_a_baseline_and_a_file_of_another_name_none(tmp_path: Path) -> None:
    found = find_baseline("smoke")
    assert found is not None
    assert found.name == "smoke.json"
    (tmp_path / "mine.yaml").write_text("name: mine\n")
    assert find_baseline(str(tmp_path / "mine.yaml")) is None


def test_a_path_is_itself_and_an_alias_has_a_folder_of_its_own(tmp_path: Path) -> None:
    assert resolve_baseline("some/file.json", open_suite("smoke"), tmp_path, None) == Path("some/file.json")
    assert alias_folder(tmp_path, "smoke", "good") == tmp_path / "sweeps/smoke/baselines/good"
