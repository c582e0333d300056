"""Imports point down the list of the architecture page and never in a circle; the core needs no optional package."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

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
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module == "engine":
                yield from (f"engine.{alias.name}" for alias in node.names)


def layer(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "engine" and parts[1] in RANK else None


def sources(package: str) -> list[Path]:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    return files


@pytest.mark.parametrize("path", sources("engine"), ids=lambda path: str(path.relative_to(ROOT)))
def test_engine_imports_point_down(path: Path) -> None:
    inside = path.relative_to(ROOT / "engine").parts[0].removesuffix(".py")
    modules = list(imports(path))
    outside = [module for module in modules if module.split(".")[0] in ("harness", "research", "tests")]
    assert not outside, f"engine imports neither harness nor research: {outside}"
    if inside == "__init__":
        return
    assert inside in RANK, f"engine/{inside} has no place in the list of layers"
    upward = [m for m in modules if (to := layer(m)) and to != inside and RANK[to] >= RANK[inside]]
    assert not upward, f"{path.relative_to(ROOT)} imports from above or beside it: {upward}"


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
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                name = inner if inner in known else node.module
                if name in known:
                    yield name


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
