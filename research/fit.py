"""Fit the performance model to measured compilations and tabulate its errors.

Run as ``python -m research.fit [CORPUS] [--networks FOLDER] [--write] [--validate] [--document FILE]``. ``CORPUS`` is a
``latency.jsonl`` file and ``FOLDER`` one of conversions of whole networks; the defaults are ``latency/latency.jsonl``
and ``networks/cases`` under the folder that ``PTQLAB_REFERENCE`` names. Prints the error tables; ``--write`` puts the
constants into the march's data file, ``--validate`` adds the errors on rows left out of the fit, ``--document`` puts
the tables into a Markdown file.

Two steps per march (:mod:`research.constants`, :mod:`research.overheads`). No row enters the model by itself: some 35
constants stand against some 200 rows per march. The uncertainty that the data file states is that of families of
networks left out of the fit; every fifth network takes no part in it at all (:data:`research.deployed.HELD_OUT`).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from engine.compile.schedule import Schedule
from engine.errors import ConfigError, PtqlabError
from engine.ir import write_atomically
from engine.march.latency import Latency, Measured, Overhead, data_file, load_latency, marches
from research.built import built_rows
from research.cases import cases_of, networks_of
from research.corpus import MeasuredRow, read_rows
from research.deployed import Deployed, read_deployed
from research.overheads import MeasuredPart
from research.report import document, report
from research.validation import (
    NETWORKS_HEADER,
    Estimates,
    Evidence,
    accuracy_of,
    built_text,
    family,
    fit,
    held_out,
    left_out,
    networks_report,
    validation_report,
    worst_networks,
)

_SAME_GENERATION: Mapping[str, str] = {"bayes": "bayes-e"}
"""Marches of few networks, and the one whose overheads theirs are pulled to."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit all marches; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m research.fit", description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="?", type=Path, help="latency.jsonl")
    parser.add_argument("--networks", type=Path, help="folder of conversions of whole networks")
    parser.add_argument("--write", action="store_true", help="put the fitted constants into the march's data file")
    parser.add_argument("--validate", action="store_true", help="also cross-validate (takes minutes)")
    parser.add_argument("--document", type=Path, help="Markdown file to put the tables into")
    options = parser.parse_args(arguments)
    try:
        corpus = options.corpus or _reference() / "latency" / "latency.jsonl"
        rows = read_rows(corpus)
        networks, refused = read_deployed(options.networks or _reference() / "networks" / "cases")
        sys.stderr.writelines(f"left out: {line}\n" for line in refused)
        built = built_rows(rows, corpus.with_name("build_model.py"))
        reports = _fit_all(rows, networks, built, options.write, options.validate)
        if options.document:
            document(options.document, reports)
    except PtqlabError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def _fit_all(
    rows: Sequence[MeasuredRow],
    networks: Sequence[Deployed],
    built: Sequence[tuple[MeasuredRow, tuple[Schedule, ...]]],
    write: bool,
    validate: bool,
) -> list[str]:
    """Fit every march, print its tables, write its data if wanted; the tables."""
    reports = []
    overheads: dict[str, Mapping[Overhead, Measured]] = {}
    for march in sorted(marches(), key=lambda name: (name in _SAME_GENERATION, name)):
        old = load_latency(march)
        of_march = [row for row in rows if row.march == march]
        deployed = [network for network in networks if network.march == march]
        evidence = Evidence(
            networks_of(of_march, old),
            [network for network in deployed if not network.held_out],
            [MeasuredPart.of_row(row.latency_us, *schedules) for row, schedules in built if row.march == march],
            overheads.get(_SAME_GENERATION.get(march, ""), {}),
        )
        latency = fit(evidence, old)
        overheads[march] = latency.overheads
        unseen, strangers = left_out(evidence, latency), left_out(evidence, latency, family)
        cases = cases_of(evidence.networks, latency)
        text = f"{march}: {report(cases, len(of_march), latency)}\n"
        text += built_text(evidence.built, latency)
        seen = [(network, latency) for network in evidence.deployed]
        text += _networks_text(seen, unseen, strangers, held_out(deployed, latency))
        if validate:
            text += validation_report(evidence, old)
        sys.stdout.write(f"\n== {text}")
        sys.stdout.flush()
        reports.append(text)
        if write:
            stated = latency.model_copy(update={"accuracy": accuracy_of(strangers)}) if strangers else latency
            write_atomically(data_file(march), _to_yaml(stated).encode())
    return reports


def _networks_text(seen: Estimates, unseen: Estimates, strangers: Estimates, kept_apart: Estimates) -> str:
    lines = [NETWORKS_HEADER, networks_report("in the fit", seen), networks_report("each left out of the fit", unseen)]
    lines += [networks_report("each family left out of the fit", strangers)]
    lines += [networks_report("kept apart from all work", kept_apart), "worst ten of the families left out:"]
    return "\n".join([*lines, *worst_networks(strangers)]) + "\n"


def _reference() -> Path:
    folder = os.environ.get("PTQLAB_REFERENCE")
    if not folder:
        raise ConfigError(
            "no corpus given: name a latency.jsonl file and a folder of networks, or set PTQLAB_REFERENCE"
        )
    return Path(folder)


def _to_yaml(latency: Latency) -> str:
    content = latency.model_dump(mode="json")
    content["fitted"] = {name: float(f"{value:.4g}") for name, value in content["fitted"].items()}
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=100)


if __name__ == "__main__":
    sys.exit(main())
