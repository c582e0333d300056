"""The trials of a sweep that its suite wants built: each shipped into its folder, built, and compared."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.errors import PtqlabError, ShipError
from engine.ship import read_record, write
from engine.ship.build import run_toolchain
from engine.ship.folder import RECORD
from engine.toolchain.log import version_in
from engine.toolchain.tool import VARIABLE, Toolchain, find_toolchain
from harness.gates.choice import Choice
from harness.report.trial_page import render_trial
from harness.shipping.check import check_and_keep
from harness.shipping.outputs import on_evaluation_images
from harness.shipping.record import SHIP, ShippedTrial, load_shipped
from harness.shipping.trial import refuse_unshippable, shipment_of
from harness.suites.suite import ShipPolicy, Suite
from harness.trials.files import TRIAL_PAGE
from harness.trials.origins import ModelOrigin
from harness.trials.tasks import Bench
from harness.trials.trial import TrialResult

Tell = Callable[[str], None]


def ship_trials(
    suite: Suite,
    results: Sequence[TrialResult],
    choices: Iterable[Choice],
    bench: Bench,
    origins: Mapping[str, ModelOrigin],
    tell: Tell | None = None,
) -> tuple[ShippedTrial, ...]:
    """Ship, build and compare what ``suite`` asks for; nothing where it asks for nothing.

    A trial that was built by the same version of the toolchain already is left as it is.

    Args:
        suite: of the sweep.
        results: of its trials.
        choices: what it recommends.
        bench: where it ran.
        origins: of its models.
        tell: told what is at work.

    Raises:
        ConfigError: :data:`~engine.toolchain.tool.VARIABLE` is no command.
    """
    wanted = wanted_trials(suite.ship, results, {choice.best for choice in choices if choice.best is not None})
    if not wanted:
        return ()
    toolchain = find_toolchain(None)
    minutes = suite.budget.minutes_per_trial
    if toolchain is not None and minutes is not None:
        toolchain = replace(toolchain, time_limit=60 * minutes)
    version = "" if toolchain is None else _version(toolchain)
    found = []
    for result in wanted:
        say = None if tell is None else partial(_with_name, tell, result.spec.id)
        shipped = _shipped(result, bench, toolchain, version, origins.get(result.spec.model), say)
        _show_on_page(shipped, result, bench)
        found.append(shipped)
    return tuple(found)


def wanted_trials(
    policy: ShipPolicy | None, results: Sequence[TrialResult], best: Collection[str | None]
) -> list[TrialResult]:
    """The trials that are to be built, in the order of the sweep; ``best``: keys of those that are recommended."""
    if policy is None:
        return []
    return [
        result
        for result in results
        if (policy is ShipPolicy.VERIFY_ALL or result.spec.key in best) and _is_ours(result)
    ]


def _is_ours(result: TrialResult) -> bool:
    try:
        refuse_unshippable(result)
    except PtqlabError:
        return False
    return True


def _version(toolchain: Toolchain) -> str:
    with tempfile.TemporaryDirectory() as folder:
        said = toolchain.version(Path(folder))
    return version_in([said]) or said


def _shipped(
    result: TrialResult,
    bench: Bench,
    toolchain: Toolchain | None,
    version: str,
    origin: ModelOrigin | None,
    tell: Tell | None,
) -> ShippedTrial:
    spec, folder = result.spec, bench.store.folder(result.spec.key) / SHIP
    made = partial(ShippedTrial, trial=spec.id, key=spec.key, toolchain=version)
    before = load_shipped(folder)
    if toolchain is not None and before is not None and version and before.toolchain == version:
        return made(shipped=before, fresh=False)
    without = f"no toolchain: {VARIABLE} is not set; the ship folder is written"
    if toolchain is None and (folder / RECORD).is_file():
        return made(problem=without, fresh=False)
    try:
        found = shipment_of(result, bench, origin)
        write(found.shipment, folder, force=True)
        if toolchain is None:
            return made(problem=without)
        built = run_toolchain(folder, toolchain, tell)
        if built.quantized is None:
            return made(problem=f"built, not compared: {read_record(folder).unmeasured}")
        built = replace(built, version=version or built.version)
        return made(shipped=check_and_keep(folder, built, partial(on_evaluation_images, found.run), tell))
    except ShipError as error:
        return made(problem=str(error), refused=True)
    except PtqlabError as error:
        return made(problem=" ".join(str(error).split()))


def _show_on_page(shipped: ShippedTrial, result: TrialResult, bench: Bench) -> None:
    store, key = bench.store, result.spec.key
    folder = store.folder(key)
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != TRIAL_PAGE}
    store.amend(key, {TRIAL_PAGE: render_trial(result, store.nodes(key), files, shipped)})


def _with_name(tell: Tell, name: str, text: str) -> None:
    tell(f"{name}: {text}")
