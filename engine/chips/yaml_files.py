"""The YAML files that lie beside modules of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Loader of YAML: libyaml's, where PyYAML has it, which takes a tenth of the time."""


def read_facts(path: Path) -> Any:
    """The content of ``path``, a file of ours."""
    return yaml.load(path.read_bytes(), _LOADER)  # noqa: S506 - both are safe loaders
