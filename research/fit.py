"""Fit the performance model to measured compilations and tabulate its errors.

Run as ``python -m research.fit [CORPUS] [--networks FOLDER] [--write] [--validate] [--document FILE]``. ``CORPUS`` is a
``latency.jsonl`` file and ``FOLDER`` one of conversions of whole networks, beside which ``minimal`` may hold networks
of a few nodes; the defaults are ``latency/latency.jsonl`` and ``networks/cases`` under the folder that
``PTQLAB_REFERENCE`` names. Prints the error tables; ``--write`` puts the constants into the march's data file,
``--validate`` adds the errors on rows left out of the fit, ``--document`` puts the tables into a Markdown file.

Two steps: :mod:`research.constants` per march, :mod:`research.overheads` for marches of one generation together. No row
enters the model by itself: some 35 constants stand against some 200 rows per march. The uncertainty that the data file
states is that of families of networks left out of the fit; every fifth network takes no part in it at all
(:data:`research.deployed.HELD_OUT`).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from engine.chips.latency import Latency, data_file, load_latency
from engine.compile.schedule import Schedule
from engine.errors import ConfigError, PtqlabError
from engine.ir import write_atomically
from research.answers import (
    FOLDER,
    Answered,
    apart_report,
    as_parts,
    asked_report,
    errors_of_answers,
    read_answers,
    read_apart,
)
from research.built import built_rows
from research.cases import cases_of, networks_of
from research.corpus import MeasuredRow, read_rows
from research.deployed import Deployed, read_deployed, read_small
from research.overheads import MeasuredPart
from research.report import document, report
from research.unfused import fit_unfused
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
    refit_overheads,
    refit_rates,
    refit_unfused,
    validation_report,
    worst_networks,
)

_GENERATIONS = (("bayes-e", "bayes"), ("bernoulli2",))
"""Marches that are fitted together; on one of few networks the other's count too."""
_PACE = {"bayes": 0.8}
"""What a wait takes of one on the other march: 1.06 of 1.33 us per layer, 3.2 of 4 per graph (reference/latency.md)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit all marches; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m research.fit", description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="?", type=Path, help="latency.jsonl")
    parser.add_argument("--networks", type=Path, help="folder of conversions of whole networks")
    parser.add_argument("--answers", type=Path, default=FOLDER, help="folder of what the original was asked")
    parser.add_argument("--write", action="store_true", help="put the fitted constants into the march's data file")
    parser.add_argument(
        "--overheads", action="store_true", help="fit the second step alone, beside the constants of the data files"
    )
    parser.add_argument(
        "--rates", action="store_true", help="fit the second step, and the rates that drawn layers tell with it"
    )
    parser.add_argument(
        "--unfused", action="store_true", help="fit what layers take at O0 alone; all other constants stay"
    )
    parser.add_argument("--validate", action="store_true", help="also cross-validate (takes minutes)")
    parser.add_argument("--document", type=Path, help="Markdown file to put the tables into")
    options = parser.parse_args(arguments)
    try:
        corpus = options.corpus or _reference() / "latency" / "latency.jsonl"
        rows = read_rows(corpus)
        folder = options.networks or _reference() / "networks" / "cases"
        networks, refused = read_deployed(folder)
        networks += read_small(folder.with_name("minimal"))
        sys.stderr.writelines(f"left out: {line}\n" for line in refused)
        built = built_rows(rows, corpus.with_name("build_model.py"))
        reports = _fit_all(rows, networks, built, options)
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
    options: argparse.Namespace,
) -> list[str]:
    """Fit every march, print its tables, write its data if wanted; the tables."""
    reports, everywhere = [], _Estimates([], [], [], [])
    fits: list[Latency] = []
    apart_draws = read_apart()
    for generation in _GENERATIONS:
        old = [load_latency(march) for march in generation]
        answers = [read_answers(march, options.answers) for march in generation]
        evidences = [
            replace(
                _evidence(march, data, rows, networks, built),
                asked=as_parts(answered),
                asked_unfused=as_parts(answered, fused=False),
            )
            for march, data, (answered, _) in zip(generation, old, answers, strict=True)
        ]
        old = _unfused(generation, answers, old)
        step = _step(options)
        fitted = step(evidences, old)
        fitted = _unfused(generation, answers, fitted)
        fits += fitted
        unseen, strangers = left_out(evidences, fitted), left_out(evidences, fitted, family)
        for march, data, evidence, latency, asked in zip(generation, old, evidences, fitted, answers, strict=True):
            cases = cases_of(evidence.networks, latency)
            apart = [network for network in networks if network.march == march]
            estimates = _Estimates(
                [(network, latency) for network in evidence.deployed],
                _of_march(unseen, march),
                _of_march(strangers, march),
                held_out(apart, latency),
            )
            everywhere += estimates
            text = f"{march}: {report(cases, sum(row.march == march for row in rows), latency)}\n"
            text += built_text(evidence.built, latency) + estimates.text()
            text += "\n".join(["worst ten of the families left out:", *worst_networks(estimates.strangers), ""])
            text += asked_report(*asked, latency)
            if options.validate:
                text += validation_report(evidence, data)
            sys.stdout.write(f"\n== {text}")
            sys.stdout.flush()
            reports.append(text)
            if options.write:
                content = _to_yaml(
                    _with_accuracy(latency, estimates.strangers, [a for a in apart_draws if a.asked.march == march])
                )
                write_atomically(data_file(march), content.encode())
    everything = dict(zip(_marches(), fits, strict=True))
    reports.append(f"all marches\n{everywhere.text()}{apart_report(apart_draws, everything.__getitem__)}")
    sys.stdout.write(f"\n== {reports[-1]}")
    return reports


def _step(options: argparse.Namespace) -> Callable[[Sequence[Evidence], Sequence[Latency]], list[Latency]]:
    """The part of the fit that is wanted."""
    if options.unfused:
        return refit_unfused
    return refit_rates if options.rates else refit_overheads if options.overheads else fit


def _unfused(
    generation: Sequence[str], answers: Sequence[tuple[Sequence[Answered], int]], latencies: Sequence[Latency]
) -> list[Latency]:
    """``latencies`` with what layers take at O0, where their data tell it."""
    if not all(latency.unfused_layers for latency in latencies):
        return list(latencies)
    pairs = [(answered, latency) for (answered, _), latency in zip(answers, latencies, strict=True)]
    return fit_unfused(pairs, [_PACE.get(march, 1.0) for march in generation])


def _with_accuracy(latency: Latency, strangers: Estimates, unseen: Sequence[Answered]) -> Latency:
    """``latency`` with what its estimates stay within."""
    fused = [answer for answer in unseen if answer.is_fused]
    apart = [answer for answer in unseen if not answer.is_fused]
    stated = accuracy_of(strangers, errors_of_answers(fused, latency))
    unfused = accuracy_of([], errors_of_answers(apart, latency))
    return latency.model_copy(update={"accuracy": stated, "unfused": unfused})


def _marches() -> list[str]:
    return [march for generation in _GENERATIONS for march in generation]


def _evidence(
    march: str,
    latency: Latency,
    rows: Sequence[MeasuredRow],
    networks: Sequence[Deployed],
    built: Sequence[tuple[MeasuredRow, tuple[Schedule, ...]]],
) -> Evidence:
    """What the data of a march are fitted to: all of its rows and networks that are not kept apart."""
    return Evidence(
        networks_of([row for row in rows if row.march == march], latency),
        [network for network in networks if network.march == march and not network.held_out],
        [MeasuredPart.of_row(row.latency_us, *schedules) for row, schedules in built if row.march == march],
        pace=_PACE.get(march, 1.0),
    )


def _of_march(estimates: Estimates, march: str) -> list[tuple[Deployed, Latency]]:
    return [(network, latency) for network, latency in estimates if network.march == march]


@dataclass(frozen=True)
class _Estimates:
    """Estimates of networks that took part in the fit, with each left out, with each family left out, and of those
    that were kept apart.
    """

    seen: Estimates
    unseen: Estimates
    strangers: Estimates
    kept_apart: Estimates

    def __add__(self, other: _Estimates) -> _Estimates:
        return _Estimates(
            [*self.seen, *other.seen],
            [*self.unseen, *other.unseen],
            [*self.strangers, *other.strangers],
            [*self.kept_apart, *other.kept_apart],
        )

    def text(self) -> str:
        """The table of networks."""
        small = [pair for pair in self.unseen if pair[0].small]
        return "\n".join(
            [
                NETWORKS_HEADER,
                networks_report("in the fit", _deployed(self.seen)),
                networks_report("each left out of the fit", _deployed(self.unseen)),
                networks_report("each family left out of the fit", _deployed(self.strangers)),
                networks_report("kept apart from all work", self.kept_apart),
                networks_report("of a few nodes, each left out", small),
                "",
            ]
        )


def _deployed(estimates: Estimates) -> Estimates:
    """Those of whole networks."""
    return [pair for pair in estimates if not pair[0].small]


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
