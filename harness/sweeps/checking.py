"""What keeps a suite from running, found before any long work: everything is opened, and one image runs through it all.

Mistakes in suite and cards (:func:`mistakes`) are looked for before every sweep, since they cost no time.
:func:`refusals` runs every kind of trial on one image, which takes a few seconds per model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.errors import ConfigError, MissingError, PtqlabError
from harness.backends.bundled import Network
from harness.backends.items import DOUBTS
from harness.execution.coordinator import ExecutorFactory, Plan, run_sweep
from harness.execution.planning import resolve
from harness.suites.suite import Point, Suite
from harness.trials.tasks import Bench, StageClock
from harness.zoo.cards import ModelCard, load_card


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a suite.

    Attributes:
        where: model or trial.
        text: what.
        is_mistake: whether suite or card must be changed; else this machine lacks something, and other trials can run.
    """

    where: str
    text: str
    is_mistake: bool = True

    def __str__(self) -> str:
        return self.text if self.text.startswith(f"{self.where}: ") else f"{self.where}: {self.text}"


def mistakes(points: Iterable[Point]) -> list[Problem]:
    """What is wrong with the cards of these trials: data sets, splits, metrics, model files. Nothing is computed."""
    models = dict.fromkeys(point.model for point in points)
    return [problem for name in models for problem in _of_card(name)]


def _of_card(name: str) -> Iterator[Problem]:
    try:
        card = load_card(name)
    except PtqlabError as error:
        yield Problem(f"model {name}", str(error))
        return
    for check in (_open_data, _open_metric, _open_model):
        try:
            check(card)
        except PtqlabError as error:
            found = not isinstance(error, MissingError) and isinstance(error, ConfigError)
            yield Problem(f"model {name}", _one_line(error), is_mistake=found)


def _open_data(card: ModelCard) -> None:
    card.open_dataset()


def _open_metric(card: ModelCard) -> None:
    if not card.metric.metadata:  # else it needs the model file, which is looked at by itself
        card.open_metric()


def _open_model(card: ModelCard) -> None:
    if not card.source.is_exported:  # what is made when it is needed may take long to make
        card.model_path()
        if card.metric.metadata:
            card.open_metric()


def refuse_mistakes(suite: Suite, points: Iterable[Point]) -> list[Problem]:
    """What this machine lacks for the trials of ``suite``, which may run all the same.

    Raises:
        ConfigError: suite or cards are wrong; names all that is.
    """
    found = mistakes(points)
    wrong = [problem for problem in found if problem.is_mistake]
    if wrong:
        raise ConfigError(f"suite {suite.name} cannot run: " + "; ".join(map(str, wrong)))
    return found


def refusals(suite: Suite, points: Sequence[Point], executor: ExecutorFactory, workers: int) -> list[Problem]:
    """Run one image through all stages of every kind of trial; what refuses or fails, once per message.

    Args:
        suite: that the trials belong to.
        points: trials whose cards :func:`mistakes` finds nothing wrong with.
        executor: runs them.
        workers: trials at a time.
    """
    one = suite.model_copy(update={"calibration_samples": 1, "evaluation_samples": 1})
    with TemporaryDirectory(prefix="ptqlab-validate-") as folder:
        plan = Plan(bench=Bench(Path(folder)), executor=executor, workers=workers)
        results = run_sweep(resolve(one, kinds(points)), plan)
    found: dict[tuple[str, str], Problem] = {}
    for result in results:
        if result.failure is not None:
            text = f"stage {result.failure.stage}: {result.failure.text}"
            found.setdefault((result.spec.model, text), Problem(f"trial {result.spec.id}", text))
    return list(found.values())


def doubts(suite: Suite, points: Sequence[Point]) -> list[str]:
    """What is doubtful about the calibration samples of each model, a sentence each.

    Args:
        suite: that the trials belong to.
        points: trials that :func:`refusals` finds nothing wrong with; the first of each model is looked at.
    """
    found = []
    first = {point.model: point for point in reversed(points)}
    with TemporaryDirectory(prefix="ptqlab-validate-") as folder:
        bench = Bench(Path(folder))
        for spec in resolve(suite, [first[model] for model in sorted(first)]):
            run = Network(spec, bench, StageClock(bench.journal(spec.key))).run(spec.settings)
            found += [f"model {spec.model}: calibration data: {text}" for text in run[DOUBTS]]
    return found


def kinds(points: Iterable[Point]) -> list[Point]:
    """One trial for each way through the stages: by model, march, engine, int16 policy and colour format."""
    found: dict[tuple[object, ...], Point] = {}
    for point in points:
        settings = point.settings
        way = (point.model, point.march, settings.engine, settings.int16, settings.input_type_rt)
        plain = settings.model_copy(update={"calibration_samples": None, "calibration_seed": None})
        found.setdefault(way, point.model_copy(update={"settings": plain}))
    return list(found.values())


def _one_line(error: PtqlabError) -> str:
    return " ".join(str(error).split())
