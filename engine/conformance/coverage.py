"""What recorded conversions cover: operator and rank of every node of the networks that were converted, by march."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import yaml

from engine.config import read_yaml
from engine.conformance.cases import find_cases, float_model
from engine.convert.unmeasured import activation_rank
from engine.errors import ConfigError, PtqlabError
from engine.frontend import load_network

OPERATOR_TABLE = "operators.csv"
"""One model per operator and variant: columns ``model``, ``march``, ``quantized_graph``; models in ``models/``."""
GOLDEN_FLOAT = ".float.onnx"
"""End of the float networks of golden conversions; the configuration beside each ends in ``.yaml``."""

Network = tuple[Path, str]
"""A float network, and the march that the original converted it for."""


def measured(folder: Path) -> dict[str, dict[str, list[int]]]:
    """Ranks by march and operator, of everything at and below ``folder`` that the original converted.

    Raises:
        ConfigError: there are no recorded conversions.
    """
    found: dict[str, dict[str, set[int]]] = {}
    networks = sorted({*_operators(folder), *_golden(folder), *_cases(folder)})
    for path, march in networks:
        for operator, rank in _operators_of(path):
            found.setdefault(march, {}).setdefault(operator, set()).add(rank)
    if not found:
        raise ConfigError(f"{folder}: holds no recorded conversions")
    return {march: {op: sorted(found[march][op]) for op in sorted(found[march])} for march in sorted(found)}


def as_yaml(coverage: dict[str, dict[str, list[int]]]) -> str:
    """The file that :mod:`engine.chips.coverage` reads."""
    head = (
        "# Ranks of activations by operator and march in measured conversions; ptqlab conformance coverage writes it.\n"
    )
    return head + yaml.safe_dump(coverage, default_flow_style=None, width=110)


def _operators_of(path: Path) -> Iterator[tuple[str, int]]:
    try:
        network = load_network(path)
    except PtqlabError:  # what we cannot read the original converted all the same; its operators stay unmeasured
        return
    for node in network.graph:
        rank = activation_rank(node)
        if rank is not None:
            yield node.op_type, rank


def _operators(folder: Path) -> Iterator[Network]:
    for table in folder.rglob(OPERATOR_TABLE):
        with table.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row["quantized_graph"]:
                    yield table.parent / "models" / row["model"], row["march"]


def _golden(folder: Path) -> Iterator[Network]:
    for path in folder.rglob(f"*{GOLDEN_FLOAT}"):
        config = path.with_name(path.name.removesuffix(GOLDEN_FLOAT) + ".yaml")
        if config.is_file():
            yield path, str(read_yaml(config)["model_parameters"]["march"])


def _cases(folder: Path) -> Iterator[Network]:
    try:
        cases = find_cases(folder)
    except ConfigError:
        return
    for case in cases:
        if case.damage or case.refusal:
            continue
        model = float_model(case)
        if model is not None:
            yield model, case.march
