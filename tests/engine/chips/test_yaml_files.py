"""The YAML files beside the modules of marches, read by either loader."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from engine.chips import registry
from engine.chips.yaml_files import read_facts


@pytest.mark.parametrize("path", sorted(Path(registry.__file__).parent.rglob("*.yaml")), ids=lambda path: path.name)
def test_the_fast_loader_gives_what_the_other_gives(path: Path) -> None:
    assert read_facts(path) == yaml.safe_load(path.read_text(encoding="utf-8"))
