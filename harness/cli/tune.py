"""``ptqlab tune``: int16 and CPU placement for more accuracy under a latency budget, on a file or a card's model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.chips import DEFAULT_MARCH, March
from engine.cli.console import say
from engine.cli.lab.tune import TOP1
from engine.errors import ConfigError
from harness.cli.options import Workdir
from harness.files import workdir as workdirs

if TYPE_CHECKING:
    from engine.cli.lab.tune import LabelledSamples, ReportedMetric
    from engine.tune import MixedPrecisionSearch
    from harness.zoo.cards import ModelCard

TASK = "task"
"""``--metric`` of the card."""
SAMPLES = 16
"""Samples of a file; of a card, those that similarity is taken on."""
SCORED_SAMPLES = 100
"""Evaluation samples of a card."""


def tune(
    network: Annotated[
        Path | None,
        typer.Argument(
            metavar="NETWORK", exists=True, dir_okay=False, help="The float ONNX model.", show_default=False
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", exists=True, dir_okay=False, help="Configuration of NETWORK.", show_default=False
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="CARD",
            help="Instead of a file: a model card, its name or file, with its data and its metric.",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            help=f"With --model, {TASK}: choose by the card's metric on its labels, or on the float model's decisions "
            "where it has none. With --labels: top1 (the default) or module:function.",
            show_default=False,
        ),
    ] = None,
    latency: Annotated[
        float | None,
        typer.Option(
            "--latency", min=0, help="Latency budget in microseconds per frame; default: 1.25 times that of int8."
        ),
    ] = None,
    trials: Annotated[int, typer.Option("--trials", min=2, help="Maximum number of models to build.")] = 40,
    minutes: Annotated[
        float, typer.Option("--minutes", min=0, help="Minutes after which no further model is built.")
    ] = 10.0,
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples",
            min=1,
            help=f"Number of samples to choose by; as many others are reported on. Default: {SAMPLES}; evaluation "
            f"samples of a card: {SCORED_SAMPLES}.",
            show_default=False,
        ),
    ] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Allow nodes that cannot be int16 to run on the CPU.")] = False,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels", exists=True, dir_okay=False, help="Labels of --data, which add the metric to the table."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", help="Folders as in cal_data_dir, for --labels; default: cal_data_dir itself."),
    ] = None,
    by_metric: Annotated[
        bool,
        typer.Option(
            "--by-metric",
            help="With --labels: choose by the metric on half of the labelled samples, and report on the others.",
        ),
    ] = False,
    march: Annotated[
        March | None, typer.Option(help="With --model: BPU architecture; default: bayes-e.", show_default=False)
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="With --model: a setting as suites have it, such as calibration_type=kl; repeatable.",
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the YAML fragment.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print table and fragment as JSON.")] = False,
    workdir: Workdir = workdirs.DEFAULT,
) -> None:
    """Find the nodes to compute in int16; print int8, all int16, the chosen mix and the YAML fragment to paste.

    The search compares the integer model with the float model on some of the calibration samples. The
    table shows that cosine under "chosen by" and, beside it, the cosine on other samples, which the
    search did not use. Labels only add their metric to the table, unless --by-metric or, of a card,
    --metric task is given; without --data it is measured on the samples that the search did not use.
    Latencies are estimates and include the extra time of CPU nodes compared with int8.
    """
    from engine.cli.lab.tune import tell_tuned
    from engine.ir import refuse_overwriting
    from engine.tune import LatencyBudget

    refuse_overwriting([output], [config, network, labels])
    budget = LatencyBudget(latency, trials, minutes, cpu)
    if model is None:
        of_cards = {"--march": march, "--set": setting, f"--metric {TASK}": metric == TASK}
        _refuse(of_cards, "belongs to --model CARD")
        labelled = _labelled(labels, data, metric, by_metric=by_metric)
        search, reported = _of_file(network, config, samples or SAMPLES, labelled)
    else:
        of_files = {"NETWORK": network, "--config": config, "--labels": labels, "--data": data}
        _refuse({**of_files, "--by-metric": by_metric}, f"stands beside --model; the card has it (--metric {TASK})")
        if metric not in (None, TASK):
            raise ConfigError(f"--metric {metric}: with --model, {TASK} is allowed: the metric of the card")
        settings = _settings(setting or ())
        search, reported = _of_card(
            _card(model, workdir), march or DEFAULT_MARCH, settings, samples, by_task=metric == TASK
        )
    found = tell_tuned(search, budget, reported, output, as_json=as_json)
    if model is not None and found.chosen.int16 and not found.chosen.cpu and not as_json:
        say(f"as a setting of a suite: int16: {{nodes: {json.dumps(list(found.chosen.int16))}}}")


def _refuse(options: Mapping[str, Any], why: str) -> None:
    """Raise ConfigError where one of ``options`` is given."""
    given = next((name for name, value in options.items() if value), None)
    if given is not None:
        raise ConfigError(f"{given} {why}")


def _labelled(labels: Path | None, data: str | None, metric: str | None, *, by_metric: bool) -> LabelledSamples | None:
    from engine.cli.lab.tune import LabelledSamples

    if labels is not None:
        return LabelledSamples(labels, data, metric or TOP1, by_metric)
    _refuse({"--data:": data, "--metric:": metric, "--by-metric:": by_metric}, "also give labels, with --labels")
    return None


def _of_file(
    network: Path | None, config: Path | None, samples: int, labelled: LabelledSamples | None
) -> tuple[MixedPrecisionSearch, ReportedMetric | None]:
    from engine.cli.lab.tune import search_of_file
    from engine.config import load_config

    if network is None or config is None:
        raise ConfigError("give NETWORK and its --config, or a card with --model")
    return search_of_file(network, load_config(config), samples, labelled)


def _of_card(
    card: ModelCard, march: March, settings: Mapping[str, Any], samples: int | None, *, by_task: bool
) -> tuple[MixedPrecisionSearch, ReportedMetric]:
    from harness.files.strict_yaml import parse
    from harness.suites.settings import Settings
    from harness.tuning import search_of_card

    wanted = parse(settings, Settings, "--set")
    similar, scored = samples or SAMPLES, samples or SCORED_SAMPLES
    return search_of_card(card, march, wanted, similar, scored, by_task=by_task)


def _card(name: str, workdir: Path) -> ModelCard:
    """The card ``name``, a name or a file."""
    from harness.cards.updates import cards_of
    from harness.files.strict_yaml import unknown
    from harness.zoo.cards import load_card, model_cards

    found = cards_of(name, workdir).models
    if len(found) != 1:
        raise unknown("model card", name, model_cards())
    return load_card(found[0])


def _settings(entries: Sequence[str]) -> Mapping[str, Any]:
    """Settings by name; values as YAML has them."""
    import yaml

    found = {}
    for entry in entries:
        name, separator, text = entry.partition("=")
        if not separator:
            raise ConfigError(f"--set {entry}: give NAME=VALUE, such as calibration_type=kl")
        try:
            found[name.strip()] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {entry}: {text!r} is no value: {error}") from error
    return found
