"""The steps of ``ptqlab tune``: int16 and CPU placement for more accuracy under a latency budget.

The command itself is the harness's, which has cards of models beside files (:mod:`harness.cli.tune`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.cli.console import say
from engine.errors import ConfigError

if TYPE_CHECKING:
    import onnx_ir as ir

    from engine.calibrate import CalibrationData
    from engine.config import Config, InputSpec
    from engine.debug.bisection.task import TaskMetric
    from engine.tune import LatencyBudget, Mix, MixedPrecisionSearch, TuningResult

FLOAT = "float"
INT8 = "int8"
CEILING = "all int16"
CHOSEN = "chosen"
TOP1 = "top1"


@dataclass(frozen=True)
class ReportedMetric:
    """The task's metric on samples that no mix is chosen by.

    Attributes:
        name: of the metric.
        of_float: of the float model.
        of: of a quantised model.
    """

    name: str
    of_float: float
    of: Callable[[ir.Model], float]


@dataclass(frozen=True)
class LabelledSamples:
    """Samples that a network file's models are scored on.

    Attributes:
        labels: file.
        folders: as in ``cal_data_dir``; None for that itself.
        metric: ``top1`` or ``module:function``.
        by_metric: whether mixes are chosen by the metric, on half of the samples.
    """

    labels: Path
    folders: str | None = None
    metric: str = TOP1
    by_metric: bool = False


def search_of_file(
    model: Path, config: Config, samples: int, labelled: LabelledSamples | None
) -> tuple[MixedPrecisionSearch, ReportedMetric | None]:
    """The search on the network file ``model``, and the metric that the labels give.

    Args:
        model: float ONNX file.
        config: of its conversion, with calibration data.
        samples: to choose by.
        labelled: None for no metric.

    Raises:
        ConfigError: there are no calibration data, or too few labelled samples.
        CalibrationDataError: a sample has no label.
    """
    from engine.frontend import parse

    settings = config.of_model(model)
    source, specs = parse(settings)
    chooser = scored = None
    if labelled is not None:
        scored = _labelled(settings, source, specs, labelled, samples)
        if labelled.by_metric:
            chooser, scored = _halved(*scored)
    search = search_of(settings, source, specs, samples)
    if chooser is not None:
        search.task = _scorer(*chooser)
    return search, None if scored is None else _reported(search, *scored)


def tell_tuned(
    search: MixedPrecisionSearch,
    budget: LatencyBudget,
    reported: ReportedMetric | None,
    output: Path | None,
    *,
    as_json: bool,
) -> TuningResult:
    """Run the search; print int8, all int16 and the chosen mix, and the YAML fragment to paste.

    Args:
        search: on a model.
        budget: of the search.
        reported: metric of the table; None for none.
        output: file for the fragment.
        as_json: print JSON instead of the table.
    """
    import yaml

    from engine.ir import write_atomically

    found = search.run(budget, report=lambda text: say(text, err=True))
    accuracies = {} if reported is None else _accuracies(search, found, reported)
    settings = search.conversion.config
    given = {name: info.as_written() for name, info in settings.model_parameters.node_info.items()}
    chosen = found.fragment(given, settings.calibration_parameters.run_on_cpu)
    fragment = yaml.safe_dump(chosen, sort_keys=False) if chosen else "# nothing to change\n"
    metric = "" if reported is None else reported.name
    if as_json:
        say(json.dumps(_as_json(found, accuracies, chosen), indent=2))
    else:
        say(f"{_table(found, accuracies, metric)}\n{fragment}")
    if output is not None:
        write_atomically(output, fragment.encode())
    return found


def _labelled(
    config: Config,
    source: ir.Model,
    specs: tuple[InputSpec, ...],
    labelled: LabelledSamples,
    samples: int,
) -> tuple[CalibrationData, TaskMetric]:
    """Samples to score on, of calibration data those that nothing is chosen by; the metric with their labels."""
    from engine.calibrate import open_folders
    from engine.calibrate.data.samples import SelectedData, halves
    from engine.debug.bisection.task import TaskMetric, open_score, read_labels

    given, folders, metric = config.calibration_parameters, labelled.folders, labelled.metric
    wanted = given.cal_data_dir if folders is None else tuple(part.strip() for part in folders.split(";"))
    data = open_folders(source, specs, wanted, given.cal_data_type, preprocess_on=given.preprocess_on)
    task = TaskMetric(metric, open_score(metric), read_labels(labelled.labels, data.names))
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


def search_of(
    config: Config, source: ir.Model, specs: tuple[InputSpec, ...], samples: int, data: CalibrationData | None = None
) -> MixedPrecisionSearch:
    """The search on ``source`` under everything else that ``config`` says.

    Args:
        config: of the conversion.
        source: float network.
        specs: its inputs.
        samples: calibration samples to choose by; as many others are reported on.
        data: calibration data; None for those that ``config`` names.

    Raises:
        ConfigError: there are none.
    """
    from engine.calibrate.data.samples import SelectedData, halves
    from engine.convert import conversion
    from engine.convert.items import DATA, OPTIMIZED, SOURCE, SPECS
    from engine.convert.runner import Given, Item
    from engine.tune import Evaluator, MixedPrecisionSearch

    given: dict[Item[Any], Given] = {SOURCE: Given(source), SPECS: Given(specs)}
    run = conversion(config, given if data is None else {**given, DATA: Given(data)})
    samples_given = run[DATA]
    if samples_given is None:
        raise ConfigError("calibration_parameters.cal_data_dir: tuning needs calibration data to compare models on")
    selection, test = (
        Evaluator(run[OPTIMIZED], SelectedData(samples_given, part), len(part)) if part else None
        for part in halves(len(samples_given), samples)
    )
    if selection is None:
        raise ConfigError("calibration_parameters.cal_data_dir: holds no samples")
    return MixedPrecisionSearch(run, selection, test)


def _reported(search: MixedPrecisionSearch, data: CalibrationData, task: TaskMetric) -> ReportedMetric:
    """The metric on ``data``; where labels do not fit the float model's outputs, that is found before the search."""
    from engine.convert.items import OPTIMIZED
    from engine.evaluate.similarity import float_outputs

    of_float = task.of(float_outputs(search.conversion[OPTIMIZED], data))
    return ReportedMetric(task.name, of_float, _scorer(data, task))


def _accuracies(search: MixedPrecisionSearch, found: TuningResult, reported: ReportedMetric) -> dict[str, float]:
    """The metric of the float model and of the three mixes, by row of the table."""
    mixes = {name: reported.of(search.model(mix)) for name, mix in _mixes(found).items()}
    return {FLOAT: reported.of_float, **mixes}


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
    if found.chosen.task is not None and found.int8.task is not None:
        lines.append(_task_worth(found.chosen.task - found.int8.task, accuracies, metric))
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
            "task": mix.task,
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


def _task_worth(gained: float, accuracies: Mapping[str, float], metric: str) -> str:
    """How much of the gain in the task's metric remains on other samples."""
    others = accuracies[CHOSEN] - accuracies[INT8]
    return f"{metric} over int8: {gained:+.4f} on the samples that chose the mix, {others:+.4f} on others"
