"""The look-alike packages as files, so that any interpreter, notebook or pytest finds them.

Nothing runs at the start of Python: each file fills itself from :mod:`engine.compat.modules` when it is imported.
"""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
from pathlib import Path

from engine.compat.modules import names
from engine.errors import ConfigError
from engine.ir import write_atomically

FIRST_LINE = '"""Look-alike of the original toolchain\'s module of this name, written by ptqlab."""'
_TEXT = f"""{FIRST_LINE}

from engine.compat.modules import content_of

__ptqlab__ = True
__all__ = sorted(content_of(__name__))
globals().update(content_of(__name__))
"""


def packages() -> tuple[str, ...]:
    """The packages: ``horizon_tc_ui``, ``horizon_nn`` and ``hmct``."""
    return tuple(dict.fromkeys(name.partition(".")[0] for name in names()))


def write_packages(folder: Path | None = None) -> list[Path]:
    """Write the packages into ``folder``, by default where this interpreter's packages are; twice changes nothing.

    Returns:
        The files.

    Raises:
        ConfigError: one of these names is a package already that is not ours: it would be shadowed.
        OutputError: a file cannot be written.
    """
    target = Path(sysconfig.get_path("purelib")) if folder is None else folder
    for package in packages():
        for place in (_importable(package), target / package):
            if place is not None and place.exists() and not _is_ours(place):
                raise ConfigError(
                    f"{place}: {package} is already installed and does not belong to ptqlab; nothing was written"
                )
    return [write_atomically(_file(target, name), _TEXT.encode()) for name in names()]


def remove_packages(folder: Path | None = None) -> list[Path]:
    """Delete the packages that :func:`write_packages` wrote; those of others stay.

    Returns:
        The deleted folders.
    """
    target = Path(sysconfig.get_path("purelib")) if folder is None else folder
    found = [target / package for package in packages() if _is_ours(target / package)]
    for place in found:
        shutil.rmtree(place)
    return found


def _file(target: Path, name: str) -> Path:
    is_package = any(other.startswith(f"{name}.") for other in names()) or "." not in name
    path = target.joinpath(*name.split("."))
    return path / "__init__.py" if is_package else path.with_suffix(".py")


def _importable(package: str) -> Path | None:
    """Folder of the package that an import would find, as a file."""
    spec = importlib.util.find_spec(package)
    return None if spec is None or not spec.origin else Path(spec.origin).parent


def _is_ours(place: Path) -> bool:
    file = place / "__init__.py"
    return file.is_file() and file.read_text(encoding="utf-8", errors="replace").startswith(FIRST_LINE)
