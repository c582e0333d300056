"""What a campaign feeds: a reader, valid files to begin from, words to splice in."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from engine.errors import PtqlabError


@dataclass(frozen=True)
class Loader:
    """One reader.

    Attributes:
        name: on the command line.
        make_seeds: makes valid files.
        words: what mutations splice in.
        load: reads the content, in a folder of its own.
        suffixes: names of files of this kind end so, for a corpus from elsewhere.
    """

    name: str
    make_seeds: Callable[[], tuple[bytes, ...]]
    words: tuple[bytes, ...]
    load: Callable[[bytes, Path], object]
    suffixes: tuple[str, ...] = ()

    @cached_property
    def seeds(self) -> tuple[bytes, ...]:
        """Valid files to begin from."""
        return self.make_seeds()

    def accepts(self, content: bytes, folder: Path) -> bool:
        """Whether ``content`` is read; a refusal must be a :class:`PtqlabError`, all else propagates."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            self.load(content, folder)
        except PtqlabError as error:
            if not str(error):
                raise AssertionError("a refusal without a message") from error
            return False
        return True
