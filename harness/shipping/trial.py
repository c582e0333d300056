"""A finished trial as a shipment: made again, if nothing that it depends on has changed since it ran."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.convert.runner import Given, Run
from engine.errors import ConfigError, PtqlabError
from engine.fingerprint import ABSENT
from engine.ship import Origin, Shipment
from engine.version import installed_version
from harness.backends.bundled import Network
from harness.backends.items import EVALUATION_SAMPLES, MODEL_DIGESTS
from harness.backends.pipeline import environment, version_of_stages
from harness.gates.differences import of_environments, of_models
from harness.suites.settings import Engine
from harness.trials.artefacts import Artefact
from harness.trials.configuration import configuration
from harness.trials.origins import ModelOrigin, kept_environment, origins_of
from harness.trials.tasks import Bench, StageClock
from harness.trials.trial import TrialResult, card_key
from harness.trials.version import engine_version
from harness.zoo.cards import load_card


@dataclass(frozen=True)
class TrialShipment:
    """A trial that can be shipped.

    Attributes:
        shipment: of it.
        run: its stages, to run other models on its images.
    """

    shipment: Shipment
    run: Run


def shipment_of(
    result: TrialResult, bench: Bench, origin: ModelOrigin | None = None, images: int | None = None
) -> TrialShipment:
    """The shipment of a finished trial.

    Args:
        result: the trial.
        bench: where it ran.
        origin: what its card and files were; None where that is not kept.
        images: number of evaluation images to run what is built on; None for those of the trial.

    Raises:
        ConfigError: it failed, was made by another engine, or its model, data or engine has changed since it ran.
        PtqlabError: what it needs is missing or is refused.
    """
    spec = result.spec
    refuse_unshippable(result)
    if changes := changes_since(result, bench.workdir, origin):
        raise ConfigError(f"trial {spec.id}: has changed since it ran: {'; '.join(changes)}; run its suite again")
    network = Network(spec, bench, StageClock(bench.journal(f"ship-{spec.key}")))
    try:
        run, _ = network.trial(network.collect_statistics([spec.settings]))
        made = run[MODEL_DIGESTS][Artefact.QUANTIZED.value]
    finally:
        network.clock.close()
    if made != result.artefacts[Artefact.QUANTIZED]:
        raise ConfigError(
            f"trial {spec.id}: its model cannot be made again: quantised, it has digest {made}, and had "
            f"{result.artefacts[Artefact.QUANTIZED]} when it was measured; run its suite again"
        )
    if images is not None:
        count = min(images, network.card.dataset.evaluation.count)
        run = run.replacing({EVALUATION_SAMPLES: Given(count, str(count))})
    made_from = Origin(
        model=network.card.model_path().name,
        model_sha256=spec.file,
        data_sha256=spec.data,
        engine=installed_version(),
        trial={"model": spec.model, "trial": spec.id, "key": spec.key},
    )
    return TrialShipment(Shipment.of(run, made_from), run)


def refuse_unshippable(result: TrialResult) -> None:
    """Refuse a trial that has no model of ours.

    Raises:
        ConfigError: it failed, or was made by another engine.
    """
    spec = result.spec
    if result.failure is not None:
        raise ConfigError(
            f"trial {spec.id}: failed in stage {result.failure.stage}: {result.failure.message}; nothing can be shipped"
        )
    if spec.settings.engine is not Engine.BUNDLED or Artefact.QUANTIZED not in result.artefacts:
        raise ConfigError(
            f"trial {spec.id}: was made by engine {spec.settings.engine.value}; "
            "only trials of ptqlab's own engine can be shipped"
        )


def changes_since(result: TrialResult, workdir: Path, origin: ModelOrigin | None = None) -> list[str]:
    """What the trial depends on and what has changed since it ran, in words; empty where nothing has.

    Args:
        result: the trial.
        workdir: that it ran in.
        origin: what its card and files were; None where that is not kept.
    """
    spec = result.spec
    try:
        card = load_card(spec.model)
        now = origins_of([spec]).get(spec.model)
        file = card.file_digest()
        data = card.open_dataset().digest
        engine = version_of_stages(spec.settings, configuration(card, spec, (), Path()))
    except PtqlabError as error:
        return [str(error)]
    found = []
    if file != spec.file:
        found.append(f"model file: {'it is gone' if file == ABSENT else _digests(spec.file, file)}")
    if data != spec.data:
        found.append(f"data: the content of data set {card.dataset.name}: {_digests(spec.data, data)}")
    if card_key(card) != spec.card:
        known = [] if origin is None or now is None else of_models(origin, replace_file(now, origin))
        found += [str(cause) for cause in known] or ["card: its preprocessing, data or metric"]
    if engine != spec.engine:
        before = kept_environment(spec.engine, workdir)
        causes = [] if before is None else of_environments(before, environment([spec.settings], engine_version()))
        found += [str(cause) for cause in causes] or ["engine: sources or tools of its stages"]
    return found


def replace_file(now: ModelOrigin, before: ModelOrigin) -> ModelOrigin:
    """``now`` with the file of ``before``, which is told apart by itself."""
    return now.model_copy(update={"file": before.file})


def _digests(before: str, now: str) -> str:
    return f"SHA-256 {before[:12]}… → {now[:12]}…"
