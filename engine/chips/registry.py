"""The chips that there are: one YAML file each beside this module, and their names as a closed choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.chips.chip import Chip, ChipFamily, ToolchainName, chip_of
from engine.chips.yaml_files import read_facts
from engine.errors import ConfigError, hint


def chips_in(folder: Path) -> Mapping[str, Chip]:
    """The chips of a folder by name; in the order of their toolchains, then families, then names.

    A file says all of a chip, or is ``derived_from`` another and says what differs. ``measured: true`` in such a file
    says that its own figures were measured; a chip with all values of its own always was.

    Raises:
        ValueError: a file derives from none that is there, or from itself, or says something that no chip has.
    """
    contents = {path.stem: read_facts(path) for path in sorted(folder.glob("*.yaml"))}
    chips = [_made(name, contents, ()) for name in contents]
    toolchains, families = list(ToolchainName), list(ChipFamily)
    chips.sort(key=lambda chip: (toolchains.index(chip.toolchain), families.index(chip.family), chip.name))
    return MappingProxyType({chip.name: chip for chip in chips})


def _made(name: str, contents: Mapping[str, Mapping[str, Any]], trail: tuple[str, ...]) -> Chip:
    if name in trail or name not in contents:
        raise ValueError(f"chip {trail[-1]} is derived from {name}, which is {'it' if name in trail else 'no chip'}")
    content = dict(contents[name])
    base = content.pop("derived_from", None)
    if base is None:
        return chip_of(name, content)
    return _made(base, contents, (*trail, name)).derive(name, **content)


CHIPS = chips_in(Path(__file__).parent)
"""All chips by name."""


class March(StrEnum):
    """BPU architecture: the name of a chip."""

    _ignore_ = ["members", "name"]  # noqa: RUF012 - a setting of enums, no attribute
    members = vars()
    for name in CHIPS:
        members[name.upper().replace("-", "_")] = name


DEFAULT_MARCH = March("bayes-e")
"""For commands that need one and are told none: that of the RDK X5."""


def load_chip(name: str) -> Chip:
    """The chip of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in CHIPS:
        raise ConfigError(
            f"User input march invalid: {name!r} . It should in list {list(CHIPS)}{hint(name, list(CHIPS))}"
        )
    return CHIPS[name]


def marches_where(holds: Callable[[Chip], bool]) -> tuple[March, ...]:
    """Names of the chips of which ``holds`` is true."""
    return tuple(March(chip.name) for chip in CHIPS.values() if holds(chip))


MEASURED_MARCHES = marches_where(lambda chip: chip.measured)
"""Marches whose rules and arithmetic were measured."""
HB_MAPPER_MARCHES = marches_where(lambda chip: chip.toolchain is ToolchainName.HB_MAPPER)
"""Marches that ``hb_mapper`` converts for."""
HB_COMPILE_MARCHES = marches_where(lambda chip: chip.toolchain is ToolchainName.HB_COMPILE)
"""Marches that ``hb_compile`` converts for."""
