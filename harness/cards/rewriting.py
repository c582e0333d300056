"""Cards as files: single keys are rewritten, comments and all else stay as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from engine.errors import ConfigError
from engine.ir import write_atomically


def rewrite(path: Path, values: Mapping[str, Any]) -> bool:
    """Give top-level keys of the YAML file ``path`` other values; keys that it lacks come last. Whether it changed.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    try:
        before = text = path.read_text(encoding="utf-8")
        for key, value in values.items():
            block = yaml.safe_dump({key: value}, sort_keys=False)
            pattern = re.compile(rf"^{re.escape(key)}:.*\n?(?:\n*[ \t-].*\n?)*", re.MULTILINE)
            found = pattern.search(text)
            text = text[: found.start()] + block + text[found.end() :] if found else f"{text.rstrip()}\n{block}"
        if text != before:
            write_atomically(path, text.encode())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return text != before
