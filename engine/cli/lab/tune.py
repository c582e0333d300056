"""``ptqlab tune``: int16 and CPU placement for more accuracy under a latency budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.console import say
from engine.errors import ConfigError

if TYPE_CHECKING:
    import onnx_ir as ir

    from engine.calibrate import CalibrationData
    from engine.config import Config, InputSpec
    from engine.debug.bisection.task import TaskMetric
    from engine.tune import Mix, MixedPrecisionSearch, TuningResult

FLOAT = "float"
INT8 = "int8"
CEILING = "all int16"
CHOSEN = "chosen"
TOP1 = "top1"


def tune(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The float ONNX model.")],
    config: Annotated[Path, typer.Option("--config", "-c", exists=True, dir_okay=False, help="Its configuration.")],
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
        int, typer.Option("--samples", min=1, help="Number of samples to choose by; as many others are reported on.")
    ] = 16,
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
    metric: Annotated[str, typer.Option("--metric", help="With --labels: top1 or module:function.")] = TOP1,
    by_metric: Annotated[
        bool,
        typer.Option(
            "--by-metric",
            help="With --labels: choose by the metric on half of the labelled samples, and report on the others.",
        ),
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the YAML fragment.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print table and fragment as JSON.")] = False,
) -> None:
    """Find the nodes to compute in int16; print int8, all int16, the chosen mix and the YAML fragment to paste.

    The search compares the integer model with the float model on some of the calibration samples. The
    table shows that cosine under "chosen by" and, beside it, the cosine on other samples, which the
    search did not use. Labels only add their metric to the table, unless --by-metric is given; without
    --data it is measured on the samples that the search did not use. Latencies are estimates and include
    the extra time of CPU nodes compared with int8.
    """
    import yaml

    from engine.config import load_config
    from engine.frontend import parse
    from engine.ir import refuse_overwriting, write_atomically
    from engine.tune import LatencyBudget

    refuse_overwriting([output], [config, model, labels])
    settings = load_config(config).of_model(model)
    source, specs = parse(settings)
    labelled = None if labels is None else _labelled(settings, source, specs, data, labels, metric, samples)
    if labelled is None and (data is not None or metric != TOP1 or by_metric):
        option = "--data" if data is not None else "--metric" if metric != TOP1 else "--by-metric"
        raise ConfigError(f"{option}: also give labels, with --labels")
    chooser = None
    if labelled is not None and by_metric:
        chooser, labelled = _halved(*labelled)
    search = _search(settings, source, specs, samples)
    if chooser is not None:
        search.task = _scorer(*chooser)
    exact = {} if labelled is None else _float_accuracy(search, *labelled)
    found = search.run(LatencyBudget(latency, trials, minutes, cpu), report=lambda text: say(text, err=True))
    accuracies = {} if labelled is None else exact | _accuracies(search, found, *labelled)
    given = {name: info.as_written() for name, info in settings.model_parameters.node_info.items()}
    chosen = found.fragment(given, settings.calibration_parameters.run_on_cpu)
    fragment = yaml.safe_dump(chosen, sort_keys=False) if chosen else "# nothing to change\n"
    if as_json:
        say(json.dumps(_as_json(found, accuracies, chosen), indent=2))
    else:
        say(f"{_table(found, accuracies, metric)}\n{fragment}")
    if output is not None:
        write_atomically(output, fragment.encode())


def _labelled(
    config: Config,
    source: ir.Model,
    specs: tuple[InputSpec, ...],
    folders: str | None,
    labels: Path,
    metric: str,
    samples: int,
) -> tuple[CalibrationData, TaskMetric]:
    """Samples to score on, of calibration data those that nothing is chosen by; the metric with their labels."""
    from engine.calibrate import open_folders
    from engine.calibrate.data.samples import SelectedData, halves
    from engine.debug.bisection.task import TaskMetric, open_score, read_labels

    given = config.calibration_parameters
    wanted = given.cal_data_dir if folders is None else tuple(part.strip() for part in folders.split(";"))
    data = open_folders(source, specs, wanted, given.cal_data_type, preprocess_on=given.preprocess_on)
    task = TaskMetric(metric, open_score(metric), read_labels(labels, data.names))
    selection, test = halves(len(data), samples)
    if folders is not None or not test:
        return data, task
    others = [index for index in range(len(data)) if index not in set(selection)]
    return SelectedData(data, others), replace(task, labels=task.labels[others])


def _halved(
    data: CalibrationData, task: TaskMetric
) -> tuple[tuple[CalibrationData, TaskMetric], tuple[CalibrationData, TaskMetric]]:
    """Labelled samples to choose by, and others to report on."""
    from engine.calibrate.data.samples import SelectedData, halves

    parts = halves(len(data), len(data))
    if not parts[1]:
        raise ConfigError(
            f"--by-metric: {len(data)} labelled samples are too few to choose by some and report on others"
        )
    first, second = ((SelectedData(data, part), replace(task, labels=task.labels[part])) for part in parts)
    return first, second


def _scorer(data: CalibrationData, task: TaskMetric) -> Callable[[ir.Model], float]:
    """The metric of a quantised model on ``data``."""
    from engine.evaluate.similarity import integer_outputs

    return lambda quantized: task.of(integer_outputs(quantized, data))


def _search(config: Config, source: ir.Model, specs: tuple[InputSpec, ...], samples: int) -> MixedPrecisionSearch:
    """The search on ``source`` under everything else that ``config`` says."""
    from engine.calibrate.data.samples import SelectedData, halves
    from engine.convert import conversion
    from engine.convert.items import DATA, OPTIMIZED, SOURCE, SPECS
    from engine.convert.runner import Given
    from engine.tune import Evaluator, MixedPrecisionSearch

    run = conversion(config, {SOURCE: Given(source), SPECS: Given(specs)})
    data = run[DATA]
    if data is None:
        raise ConfigError("calibration_parameters.cal_data_dir: tuning needs calibration data to compare models on")
    selection, test = (
        Evaluator(run[OPTIMIZED], SelectedData(data, part), len(part)) if part else None
        for part in halves(len(data), samples)
    )
    if selection is None:
        raise ConfigError("calibration_parameters.cal_data_dir: holds no samples")
    return MixedPrecisionSearch(run, selection, test)


def _float_accuracy(search: MixedPrecisionSearch, data: CalibrationData, task: TaskMetric) -> dict[str, float]:
    """The metric of the float model; where labels do not fit, that is found before the search."""
    from engine.convert.items import OPTIMIZED
    from engine.evaluate.similarity import float_outputs

    return {FLOAT: task.of(float_outputs(search.conversion[OPTIMIZED], data))}


def _accuracies(
    search: MixedPrecisionSearch, found: TuningResult, data: CalibrationData, task: TaskMetric
) -> dict[str, float]:
    """The metric of the three mixes, by row of the table."""
    from engine.evaluate.similarity import integer_outputs

    return {name: task.of(integer_outputs(search.model(mix), data)) for name, mix in _mixes(found).items()}


def _mixes(found: TuningResult) -> dict[str, Mix]:
    return {INT8: found.int8, CEILING: found.ceiling, CHOSEN: found.chosen}


def _table(found: TuningResult, accuracies: Mapping[str, float], metric: str) -> str:
    scored = f"{metric:>10}{'to float':>10}" if accuracies else ""
    similarities = f"{'chosen by':>10}{'cosine':>10}{'worst':>10}{'agreement':>10}"
    lines = [f"{'':12}{scored}{similarities}{'us':>8}{'CPU us':>8}{'int16':>6}{'CPU':>5}"]
    if accuracies:
        lines.append(f"{FLOAT:12}{_scored(accuracies, FLOAT)}")
    lines += [f"{name:12}{_scored(accuracies, name)}{_row(mix)}" for name, mix in _mixes(found).items()]
    lines.append(_worth(found.int8, found.chosen))
    if found.int8.latency_us > found.latency_budget_us:
        lines.append(f"int8 takes {found.int8.latency_us:.0f} us on its own, so no mix meets the budget")
    lines.append(
        f"budget {found.latency_budget_us:.0f} us; {found.trials} models built in {found.seconds:.0f} s\n"
        "most sensitive: " + ", ".join(f"{name} {value:.6f}" for name, value in found.ranking[:5])
    )
    if found.broken:
        lines.append(f"WARNING: the chosen mix: {' '.join(found.broken)}")
    return "\n".join(lines)


def _as_json(found: TuningResult, accuracies: Mapping[str, float], fragment: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`_table` shows, unrounded; the metric by mix where there are labels."""
    mixes = {
        name: {
            "cosine": mix.score.cosine,
            "test": None if mix.test is None else asdict(mix.test),
            "latency_us": mix.latency_us,
            "cpu_us": mix.cpu_us,
            "int16": sorted(mix.int16),
            "cpu": list(mix.cpu),
        }
        for name, mix in _mixes(found).items()
    }
    return {
        "mixes": mixes,
        "accuracies": dict(accuracies),
        "latency_budget_us": found.latency_budget_us,
        "trials": found.trials,
        "ranking": dict(found.ranking),
        "broken": list(found.broken),
        "fragment": dict(fragment),
    }


def _scored(accuracies: Mapping[str, float], name: str) -> str:
    """The metric and its ratio to the float model's; empty without labels."""
    if not accuracies:
        return ""
    ratio = accuracies[name] / accuracies[FLOAT] if accuracies[FLOAT] else float("nan")
    return f"{accuracies[name]:10.4f}{ratio:10.4f}"


def _row(mix: Mix) -> str:
    """Cosine on the samples by which mixes were chosen, and on the others; costs."""
    test = mix.test
    reported = f"{'-':>10}{'-':>10}{'-':>10}"
    if test is not None:
        agreement = "-" if test.agreement is None else f"{test.agreement:.4f}"
        reported = f"{test.cosine:10.6f}{test.worst_cosine:10.6f}{agreement:>10}"
    costs = f"{mix.latency_us:8.0f}{mix.cpu_us:8.0f}{len(mix.int16):6}{len(mix.cpu):5}"
    return f"{mix.score.cosine:10.6f}{reported}{costs}"


def _worth(int8: Mix, chosen: Mix) -> str:
    """How much of the gain over int8 remains on other samples."""
    gained = f"cosine over int8: {chosen.score.cosine - int8.score.cosine:+.6f} on the samples that chose the mix"
    if chosen.test is None or int8.test is None:
        return f"{gained}; there are too few samples to report on others"
    return f"{gained}, {chosen.test.cosine - int8.test.cosine:+.6f} on others"
