"""Builds the smaller distributions from the one ``pyproject.toml``: ``ptqlab-engine``, the engine without the lab, and
``ptqlab-minimal``, all of ptqlab without MLflow.

Usage: python .ci/engine_wheel.py OUTDIR

``[tool.ptqlab.engine]`` names the dependencies that the lab alone needs, and those that only pages need: these are the
extra ``pages``. ``[tool.ptqlab.minimal]`` names what is the extra ``mlflow`` of the other.
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


def minimal(whole: dict[str, object]) -> dict[str, object]:
    """The table ``project`` of the distribution without MLflow."""
    table, left_out = dict(whole["project"]), whole["tool"]["ptqlab"]["minimal"]["mlflow"]
    requirements = table["dependencies"]
    table["dependencies"] = [one for one in requirements if package_of(one) not in left_out]
    extra = [one for one in requirements if package_of(one) in left_out]
    table["optional-dependencies"] = {"mlflow": extra, **table["optional-dependencies"]}
    table["name"] = "ptqlab-minimal"
    table["description"] = f"{table['description']}; sweeps are recorded as JSON lines unless MLflow is installed"
    return table


def toml(table: dict[str, object]) -> str:
    """A table whose values are text, lists of text and tables of these, as TOML; JSON's text is TOML's."""
    plain = [f"{key} = {json.dumps(value)}" for key, value in table.items() if not isinstance(value, dict)]
    nested = [(key, value) for key, value in table.items() if isinstance(value, dict)]
    rows = [line for key, value in nested for line in _rows(f"project.{key}", value)]
    return "\n".join(["[project]", *plain, *rows])


def _rows(name: str, table: dict[str, object]) -> list[str]:
    """A table below ``project``, and the tables in it."""
    plain = [f"{json.dumps(k)} = {json.dumps(v)}" for k, v in table.items() if not isinstance(v, dict)]
    nested = [(k, v) for k, v in table.items() if isinstance(v, dict)]
    head = [f"[{name}]", *plain] if plain else []
    return [*head, *(line for key, value in nested for line in _rows(f"{name}.{json.dumps(key)}", value))]


_HOOK = """
[tool.hatch.build.targets.wheel.hooks.custom]
path = "hatch_build.py"
"""


def main(outdir: str) -> None:
    """Build both wheels into ``outdir``."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    _build(whole, project(whole), ["engine"], {}, outdir)
    included = whole["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    _build(whole, minimal(whole), ["engine", "harness"], included, outdir)


def _build(
    whole: dict[str, object], table: dict[str, object], packages: list[str], included: dict[str, str], outdir: str
) -> None:
    """Build the wheel of ``table``, of these packages and what goes into them from elsewhere."""
    requires = json.dumps(whole["build-system"]["requires"])
    build = f'[build-system]\nrequires = {requires}\nbuild-backend = "hatchling.build"\n'
    wheel = f"\n[tool.hatch.build.targets.wheel]\npackages = {json.dumps(packages)}\n"
    wheel += f"artifacts = {json.dumps(whole['tool']['hatch']['build']['targets']['wheel']['artifacts'])}\n"
    more = [f"{json.dumps(path)} = {json.dumps(target)}" for path, target in included.items()]
    if more:
        wheel += "\n".join(["", "[tool.hatch.build.targets.wheel.force-include]", *more, ""])
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in ("README.md", "LICENSE", "hatch_build.py"):
            shutil.copy(ROOT / name, tree)
        for name in (*packages, *included):
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        (tree / "pyproject.toml").write_text(build + toml(table) + wheel + _HOOK, encoding="utf-8")
        target = str(Path(outdir).resolve())
        subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", target, folder], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
