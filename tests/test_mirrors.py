"""Every module that holds a rule has a test of the same path, which imports it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.import_statements import statements

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("engine", "harness", "research")

WITHOUT_RULES: dict[str, str] = {
    "engine/calibrate/statistics/bits.py": "names of types and sizes of buffers",
    "engine/chips/latency/fitted.py": "figures as values",
    "engine/chips/latency/layout.py": "figures as values",
    "engine/chips/latency/unfused.py": "figures as values",
    "engine/ops/core/costs.py": "names of kinds of layers",
    "engine/ops/core/instructions.py": "names of instructions",
    "engine/place/options.py": "requests and answers as values",
    "harness/backends/values.py": "what stages exchange, as values",
    "harness/cli/options.py": "annotated options",
    "harness/cli/start.py": "names of the console scripts",
}
"""Modules that hold no rule a test could break, and why: names or tables alone, a console's entry."""


def modules() -> list[Path]:
    """Every module of the packages, relative to the repository, but packages' own files that only gather names."""
    found = [path.relative_to(ROOT) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [path for path in found if path.name != "__init__.py" or _defines(ROOT / path)]


def _defines(path: Path) -> bool:
    """Whether a module has functions or classes of its own."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree.body)


def mirror(module: Path) -> Path:
    name = "package" if module.name == "__init__.py" else module.stem
    return Path("tests") / module.parent / f"test_{name}.py"


def imported(test: Path) -> Iterator[str]:
    """Dotted names of what a test imports: modules, and names within them."""
    for module, names in statements(test):
        yield from names if module is None else (module, *(f"{module}.{name}" for name in names))


def is_mirrored(module: Path, root: Path = ROOT) -> bool:
    test = root / mirror(module)
    name = ".".join((module.parent if module.name == "__init__.py" else module.with_suffix("")).parts)
    return test.is_file() and name in set(imported(test))


def test_every_module_has_its_mirror() -> None:
    """``tests/a/test_b.py`` is to import ``a/b.py``, unless :data:`WITHOUT_RULES` names it and says why; not both."""
    assert [module.as_posix() for module in modules() if not is_mirrored(module)] == sorted(WITHOUT_RULES)


def test_the_list_names_modules() -> None:
    assert sorted(WITHOUT_RULES.keys() - {path.as_posix() for path in modules()}) == []


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        ("import engine.ops.add", True),
        ("from engine.ops import add", True),
        ("from engine.ops.add import Add", True),
        ("def test():\n    from engine.ops.add import Add", True),
        ("from engine.ops import Add", False),
        ("from engine.ops.add_more import Add", False),
        ("from .add import Add", False),
        ("name = 'engine.ops.add'", False),
    ],
)
def test_a_mirror_imports_what_it_tests(source: str, counts: bool, tmp_path: Path) -> None:
    module = Path("engine/ops/add.py")
    assert not is_mirrored(module, tmp_path)
    path = tmp_path / "tests/engine/ops/test_add.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert is_mirrored(module, tmp_path) is counts
