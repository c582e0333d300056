"""Ask the original for the latency of drawn networks; a line of JSON per conversion.

Run as ``python -m research.asking --march bayes-e [--family NAME ...] [--draws N] [--seed N] -o FILE``, with the
original in ``PTQLAB_HB_MAPPER`` or ``--toolchain``. What ``FILE`` has already is not asked again, so that a run that
was ended goes on where it was. The families take turns: the first draw of each, then the second. Seeds
of :data:`~research.draws.APART` are those of the networks that no fit sees (``research/data/apart*.jsonl``).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import yaml
from pydantic import BaseModel, ConfigDict

from engine.errors import ConfigError, PtqlabError
from engine.ir import write_atomically
from engine.terms import OptimizeLevel
from engine.toolchain.tool import VARIABLE, Toolchain, find_toolchain
from research.draws import FAMILIES, SEED, UNFUSED, WHOLE, Drawn, Key, latency_draw

TIME_LIMIT = 150.0
"""Seconds of a conversion: what takes longer is noted as not answered."""
_CHOICES = (*FAMILIES, *(f"{family}{UNFUSED}" for family in FAMILIES), *WHOLE)
_NUMBER = re.compile(r"[\d.]+")
_BELOW_ONE = 0.5
"""Microseconds that ``<1 us`` counts as."""


class AskedLayer(BaseModel):
    """What the original's page says of one layer.

    Attributes:
        name: the original's.
        shape: of its output, NHWC.
        compute_us: computing, in whole microseconds; 0.5 for less than one.
        transfer_us: loading and storing.
        start_us: when it begins.
        end_us: when it ends.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    shape: tuple[int, ...]
    compute_us: float
    transfer_us: float
    start_us: float
    end_us: float


class AskedSubgraph(BaseModel):
    """What the original says of one BPU subgraph."""

    model_config = ConfigDict(frozen=True)

    latency_us: float
    loaded: int
    stored: int
    layers: tuple[AskedLayer, ...] = ()

    @property
    def ddr_bytes(self) -> int:
        """Over the DDR interface."""
        return self.loaded + self.stored


class AskedDraw(BaseModel):
    """One answer: the subgraphs of a draw, or why there are none."""

    model_config = ConfigDict(frozen=True)

    family: str
    index: int
    march: str
    level: OptimizeLevel
    cores: int
    wide: bool = False
    cpu: tuple[str, ...] = ()
    subgraphs: tuple[AskedSubgraph, ...] = ()
    failure: str = ""
    seed: int = SEED

    @property
    def key(self) -> Key:
        """What names the draw."""
        return self.family, self.index, self.march, self.seed

    @property
    def latency_us(self) -> float:
        """Of all subgraphs."""
        return sum(each.latency_us for each in self.subgraphs)

    @property
    def ddr_bytes(self) -> int:
        """Of all subgraphs."""
        return sum(each.ddr_bytes for each in self.subgraphs)


def read_asked(path: Path) -> tuple[AskedDraw, ...]:
    """All answers of a file; none where there is no file. A last line that was cut off is left out.

    Raises:
        ConfigError: another line is no answer.
    """
    if not path.is_file():
        return ()
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(AskedDraw.model_validate_json(line))
        except ValueError as error:
            if number < len(lines):
                raise ConfigError(f"{path}: line {number} is no answer of the original: {error}") from error
    return tuple(found)


def write_asked(item: Drawn, to: Path) -> Path:
    """Write network and configuration to ``to``; the path of the latter."""
    to.mkdir(parents=True, exist_ok=True)
    write_atomically(to / "net.onnx", item.model.SerializeToString())
    inputs = [value.name for value in item.model.graph.input]
    content: dict[str, Any] = {
        "model_parameters": {
            "onnx_model": "./net.onnx",
            "march": item.march,
            "output_model_file_prefix": "net",
            "working_dir": "./out",
        },
        "input_parameters": {
            "input_name": ";".join(inputs),
            **{
                key: ";".join([value] * len(inputs))
                for key, value in (
                    ("input_type_train", "featuremap"),
                    ("input_layout_train", "NCHW"),
                    ("input_type_rt", "featuremap"),
                    ("input_layout_rt", "NCHW"),
                    ("norm_type", "no_preprocess"),
                )
            },
        },
        "calibration_parameters": {"calibration_type": "skip"},
        "compiler_parameters": {
            "compile_mode": "latency",
            "debug": True,
            "core_num": item.cores,
            "optimize_level": item.level.value,
        },
    }
    if item.requests:
        content["model_parameters"]["node_info"] = {name: dict(wanted) for name, wanted in item.requests.items()}
    path = to / "net.yaml"
    write_atomically(path, yaml.safe_dump(content, sort_keys=False).encode())
    return path


def _under_own_name(item: Drawn) -> Drawn:
    """``item`` with a graph that no other process asks of at the same time.

    The original keeps subgraphs in one folder of its server, by the name of the graph: two networks of one name that
    are compiled side by side mix their pages.
    """
    model = onnx.ModelProto()
    model.CopyFrom(item.model)
    model.graph.name = f"{item.model.graph.name}_{os.getpid()}"
    return replace(item, model=model)


def ask(item: Drawn, tool: Toolchain) -> AskedDraw:
    """What the original says of ``item``."""
    wide = any("InputType" in wanted for wanted in item.requests.values())
    given = {
        "family": item.family,
        "index": item.index,
        "march": item.march,
        "level": item.level,
        "cores": item.cores,
        "wide": wide,
        "seed": item.seed,
    }
    with tempfile.TemporaryDirectory(prefix="latency-") as folder:
        config = write_asked(_under_own_name(item), Path(folder))
        done = tool.convert(config, Path(folder) / "out")
        if done.failure:
            return AskedDraw(**given, failure=done.failure[:200])
        pages = sorted((Path(folder) / "out").glob("*_subgraph_*.json"), key=_number_of)
        subgraphs = tuple(read_page(json.loads(page.read_text(encoding="utf-8"))) for page in pages)
        cpu = tuple(row["Type"] for row in done.log.nodes if row["ON"] == "CPU")
    if len(subgraphs) != len(done.log.subgraphs):
        return AskedDraw(**given, failure="the pages are not those of the log")
    return AskedDraw(**given, cpu=cpu, subgraphs=subgraphs)


def _number_of(page: Path) -> int:
    return int(page.stem.rpartition("_")[2])


def read_page(page: dict[str, Any]) -> AskedSubgraph:
    """The figures of one page of ``debug: True``."""
    summary = page["summary"]
    rows = summary.get("layer details", [[]])[1:]
    return AskedSubgraph(
        latency_us=summary["latency (us)"],
        loaded=summary["loaded bytes per run"],
        stored=summary["stored bytes per run"],
        layers=tuple(
            AskedLayer(
                name=row[0],
                shape=tuple(json.loads(row[2])),
                compute_us=_microseconds(row[4]),
                transfer_us=_microseconds(row[5]),
                start_us=_numbers(row[6])[0],
                end_us=_numbers(row[6])[1],
            )
            for row in rows
        ),
    )


def _microseconds(text: str) -> float:
    return _BELOW_ONE if text.startswith("<") else (_numbers(text) or [0.0])[0]


def _numbers(text: str) -> list[float]:
    return [float(each) for each in _NUMBER.findall(text)]


def turns(families: Sequence[str], first: int, draws: int, march: str, seed: int = SEED) -> Iterator[Key]:
    """The keys of draws: the first of each family, then the second."""
    return ((family, index, march, seed) for index in range(first, first + draws) for family in families)


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m research.asking", description=__doc__.splitlines()[0])
    parser.add_argument("--march", required=True)
    parser.add_argument("--family", action="append", choices=_CHOICES, metavar="NAME", help="all by default")
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--draws", type=int, default=10, help="of each family")
    parser.add_argument("--seed", type=int, default=SEED, help="of the draws")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--toolchain", help=f"the original; {VARIABLE} by default")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    until = time.monotonic() + 60 * options.minutes
    try:
        tool = find_toolchain(options.toolchain, time_limit=TIME_LIMIT)
        if tool is None:
            raise ConfigError(f"no toolchain: give --toolchain or set {VARIABLE}")
        known = read_asked(options.output)
        write_atomically(options.output, "".join(f"{_line(each)}\n" for each in known).encode())
        done = {each.key for each in known}
        families = options.family or list(FAMILIES)
        for key in turns(families, options.first, options.draws, options.march, options.seed):
            if time.monotonic() > until:
                break
            if key not in done:
                answer = ask(latency_draw(*key), tool)
                with options.output.open("a", encoding="utf-8") as stream:
                    stream.write(f"{_line(answer)}\n")
    except PtqlabError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def _line(answer: AskedDraw) -> str:
    return answer.model_dump_json(exclude_defaults=True)


if __name__ == "__main__":
    sys.exit(main())
