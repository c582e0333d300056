"""Imports point down the list of the architecture page and never in a circle; the core needs no optional package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.import_statements import statements

ROOT = Path(__file__).resolve().parent.parent

LAYERS = (
    {"cli", "compat"},
    {"rewrite"},
    {"ship"},
    {"conformance", "tune"},
    {"convert"},
    {"evaluate", "debug", "perf"},
    {"compile"},
    {"simulate"},
    {"quantize"},
    {"calibrate"},
    {"place"},
    {"rulebook"},
    {"facts"},
    {"floats"},
    {"optimize"},
    {"frontend"},
    {"ops"},
    {"config"},
    {"board", "page_links", "toolchain"},
    {"graph"},
    {"ir"},
    {"model_bounds", "untrusted"},
    {"limits"},
    {"chips", "extensions"},
    {"registry"},
    {"alignment", "errors", "exports", "fingerprint", "jit", "native", "pages", "terms", "version"},
    {"deferral", "sealed", "user_cache", "visible"},
)
RANK = {name: len(LAYERS) - index for index, names in enumerate(LAYERS) for name in names}
OPTIONAL = ("torch", "torchvision", "distributed", "dask")
HEAVY = ("mlflow", "onnxruntime", "numba", "plotly", "torch")


def imports(path: Path) -> Iterator[str]:
    """Every module that the file imports, also inside functions; ``from engine import x`` counts as ``engine.x``."""
    for module, names in statements(path):
        yield from names if module is None else [module]
        if module == "engine":
            yield from (f"engine.{name}" for name in names)


def layer(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "engine" and parts[1] in RANK else None


def sources(package: str) -> list[Path]:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    return files


def test_engine_imports_point_down() -> None:
    """The engine imports neither the lab nor what measures it; inside it, no module one of its layer or above."""
    wrong = {str(path.relative_to(ROOT)): found for path in sources("engine") if (found := upward(path))}
    assert wrong == {}


def upward(path: Path) -> list[str]:
    """Modules that a file of the engine may not import."""
    inside = path.relative_to(ROOT / "engine").parts[0].removesuffix(".py")
    assert inside in {*RANK, "__init__"}, f"engine/{inside} has no place in the list of layers"
    lowest = RANK.get(inside, len(LAYERS) + 1)
    return [
        module
        for module in imports(path)
        if module.split(".")[0] in ("harness", "research", "tests")
        or ((to := layer(module)) and to != inside and RANK[to] >= lowest)
    ]


@pytest.mark.parametrize("package", ["engine", "harness"])
def test_no_import_cycles_between_modules(package: str) -> None:
    """Imports inside functions and those for type checkers alone count as well."""
    names = {module_name(path): path for path in sources(package)}
    graph = {name: {m for m in imported_modules(path, names) if m != name} for name, path in names.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, known: Collection[str]) -> Iterator[str]:
    """Of ``known`` modules, those that the file imports; ``from package import module`` is an import of the module."""
    for module, names in statements(path):
        for name in names:
            inner = name if module is None else f"{module}.{name}"
            yield from [each for each in (inner, module) if each is not None and each in known][:1]


def test_engine_imports_without_optional_packages() -> None:
    """The core installs and imports without torch, dask and friends."""
    blocked = "; ".join(f"sys.modules[{name!r}] = None" for name in OPTIONAL)
    code = f"import sys; {blocked}; import engine, harness, harness.cli.main, harness.pytest_plugin"
    finished = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


def test_commands_start_without_heavy_packages() -> None:
    """``--help`` must not pay for packages that only some commands need."""
    code = (
        "import sys, engine.cli.vendor.hb_mapper, harness.cli.main, harness.pytest_plugin; "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"
