"""Where the cards and modules of the user's own were found, kept with what was made of them."""

from __future__ import annotations

from pathlib import Path

from harness.files import paths
from harness.files.strict_yaml import StrictModel


class CardFolders(StrictModel):
    """Folders that are looked through before what is bundled.

    Attributes:
        suites: of suites, model cards in ``zoo`` of each.
        datasets: of cards of data sets.
        code: of modules, besides these.
    """

    suites: tuple[Path, ...] = ()
    datasets: tuple[Path, ...] = ()
    code: tuple[Path, ...] = ()

    @classmethod
    def here(cls) -> CardFolders:
        """The folders of this process, absolute."""
        return cls(
            suites=tuple(map(Path.resolve, paths.suites()[:-1])),
            datasets=tuple(map(Path.resolve, paths.datasets()[:-1])),
            code=tuple(map(Path.resolve, (Path.cwd(), *paths.code()))),
        )

    def search_first(self) -> None:
        """Look in them before all others from here on, in child processes too."""
        paths.search_first(self.suites, self.datasets, self.code)

    def search_only(self) -> None:
        """Look in them, and in what is bundled, alone."""
        paths.search_only(self.suites, self.datasets, self.code)
