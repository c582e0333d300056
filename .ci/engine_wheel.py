"""Builds ``ptqlab-engine``, the engine without the lab, from the one ``pyproject.toml``.

Usage: python .ci/engine_wheel.py OUTDIR

``[tool.ptqlab.engine]`` names the dependencies that the lab alone needs, and those that only pages need: these are the
extra ``pages``.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent


def package_of(requirement: str) -> str:
    """Name of the package that a requirement asks for."""
    return re.split(r"[<>=!~\[; ]", requirement, maxsplit=1)[0]


def project(whole: dict[str, object]) -> dict[str, object]:
    """The table ``project`` of the engine's distribution, from the whole ``pyproject.toml``."""
    table, split = dict(whole["project"]), whole["tool"]["ptqlab"]["engine"]
    left_out = {*split["lab"], *split["pages"]}
    requirements = table["dependencies"]
    table["dependencies"] = [one for one in requirements if package_of(one) not in left_out]
    table["optional-dependencies"] = {"pages": [one for one in requirements if package_of(one) in split["pages"]]}
    table["name"] = "ptqlab-engine"
    table["description"] = (
        "The conversion engine of ptqlab: float models to the BPU's integers, simulator, latency model"
    )
    table["scripts"] = {name: entry for name, entry in table["scripts"].items() if entry.startswith("engine.")}
    table.pop("entry-points", None)
    return table


def toml(table: dict[str, object]) -> str:
    """A table whose values are text, lists of text and tables of these, as TOML; JSON's text is TOML's."""
    plain = [f"{key} = {json.dumps(value)}" for key, value in table.items() if not isinstance(value, dict)]
    nested = [(key, value) for key, value in table.items() if isinstance(value, dict)]
    rows = [
        [f"[project.{key}]", *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in value.items())] for key, value in nested
    ]
    return "\n".join(["[project]", *plain, *(line for row in rows for line in row)])


def main(outdir: str) -> None:
    """Build the wheel into ``outdir``."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requires = json.dumps(whole["build-system"]["requires"])
    build = f'[build-system]\nrequires = {requires}\nbuild-backend = "hatchling.build"\n'
    wheel = """
[tool.hatch.build.targets.wheel]
packages = ["engine"]
artifacts = ["engine/native/objects/*.o"]

[tool.hatch.build.targets.wheel.hooks.custom]
path = "hatch_build.py"
"""
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("README.md", "LICENSE", "hatch_build.py"):
            shutil.copy(ROOT / name, tree)
        shutil.copytree(ROOT / "engine", tree / "engine", ignore=shutil.ignore_patterns("__pycache__"))
        (tree / "pyproject.toml").write_text(build + toml(project(whole)) + wheel, encoding="utf-8")
        target = str(Path(outdir).resolve())
        subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", target, folder], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
