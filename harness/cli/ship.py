"""``ptqlab ship``: the measured integers as a folder for the original toolchain, built and compared."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.chips import HB_COMPILE_MARCHES, March
from engine.cli.console import say
from engine.cli.toolchain import ConversionLimit, MountOption, activities
from engine.errors import ConfigError, ShipError
from harness.cli.options import Workdir
from harness.files import workdir as workdirs

if TYPE_CHECKING:
    from engine.ship import Shipment, ShipRecord
    from engine.toolchain.tool import Tell, Toolchain
    from harness.gates.choice import Choice
    from harness.report.results import SweepSummary
    from harness.shipping.check import Look
    from harness.shipping.record import Shipped
    from harness.trials.origins import ModelOrigin
    from harness.trials.trial import TrialResult

EXIT_DIFFERENT = 1
"""The toolchain built something else than what was measured."""


def ship(
    trial: Annotated[
        str | None, typer.Argument(help="Trial id or key, as ptqlab show prints them.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Ship folder to write.", show_default=False)
    ] = None,
    best: Annotated[
        str | None, typer.Option(metavar="SUITE/MODEL", help="Ship the setting that the suite's last sweep recommends.")
    ] = None,
    march: Annotated[March | None, typer.Option(help="With --best, where the sweep has several.")] = None,
    config: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Ship a conversion by its YAML file, without a sweep."),
    ] = None,
    verify: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="DIR QUANTIZED.onnx", help="Compare a quantised model that was built from a ship folder elsewhere."
        ),
    ] = None,
    toolchain: Annotated[
        str | None,
        typer.Option(
            help="Your own toolchain, such as hb_mapper or 'docker exec NAME hb_mapper', which builds the file for the "
            "board. Default: PTQLAB_HB_MAPPER; '' for none."
        ),
    ] = None,
    mount: MountOption = None,
    time_limit: ConversionLimit = 3600.0,
    images: Annotated[
        int | None,
        typer.Option(min=1, help="Evaluation images to run what was built on; default: as many as the trial has."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a ship folder that is there.")] = False,
    workdir: Workdir = workdirs.DEFAULT,
) -> None:
    """Write a folder from which the original toolchain builds the integers that were measured, and prove it.

    Without a toolchain, only the folder is written. With one, it builds the file for the board; its quantised
    model is compared with what was measured, node by node, and runs on the evaluation images.

    Exit code: 0 the folder is written, and what was built is equal; 1 something else was built; 3 the toolchain
    failed, was cut off or wrote no model, and the folder is complete without it; 255 refused, nothing is written.
    """
    from engine.ship import write
    from engine.ship.folder import refuse_to_replace
    from engine.toolchain.tool import find_toolchain

    sources = {"TRIAL": trial, "--best": best, "--config": config}
    given = [name for name, value in sources.items() if value is not None]
    if verify is not None:
        if given or output is not None:
            raise ConfigError(f"--verify DIR QUANTIZED.onnx stands alone; leave out {' and '.join(given) or '-o'}")
        _verify(*verify, workdir, images)
        return
    if len(given) != 1:
        named = ", ".join(given) or "none"
        raise ConfigError(f"name one thing to ship, a trial, --best SUITE/MODEL or --config; given: {named}")
    if output is None:
        raise ConfigError("-o DIR is missing, the ship folder to write")
    if march is not None and best is None:
        raise ConfigError("--march belongs to --best")
    if images is not None and config is not None:
        raise ConfigError("--images belongs to a trial; a conversion by --config has its calibration data only")
    tool = find_toolchain(toolchain, mount or (), time_limit)
    refuse_to_replace(output, force)
    if tool is not None:
        tool.command.path(output)
    source = config if config is not None else _named(trial, best, march, workdir)
    with activities(lines=True) as shown:
        shown.tell("ship", "converts")
        try:
            shipment, look = _of_config(source) if isinstance(source, Path) else _of_trial(source, workdir, images)
            record = write(shipment, output, force=force)
        except ShipError as error:
            others = [] if best is None else _as_good_in_int8(best, march, workdir)
            if not others:
                raise
            raise ShipError(error.reason, f"{error.remedy}; as good as the best within noise: {others[0]}") from error
        say(f"{output}: {len(record.thresholds):,} thresholds, {record.integers:,} integers")
        for each in record.not_carried:
            say(f"not carried over: {each.what}: {each.reason}; {each.cost}", err=True)
        shown.done("ship")
        shipped = None if tool is None else _built(output, tool, look, partial(shown.tell, "toolchain"), record)
    if tool is None:
        say(how_to_build(output, record))
    elif shipped is not None:
        _tell(shipped, output)


def _verify(directory: Path, quantized: Path, workdir: Path, images: int | None) -> None:
    """Compare ``quantized`` with the ship folder ``directory``; on images too where its trial is in ``workdir``."""
    from engine.ship import read_record
    from harness.shipping.check import compare_built
    from harness.trials.trial import TrialStore

    if not quantized.is_file():
        raise ConfigError(f"--verify: {quantized}: no such file; expected the toolchain's *_quantized_model.onnx")
    key = read_record(directory).origin.trial.get("key", "")
    result = TrialStore(workdir / "trials").read(key) if key else None
    with activities(lines=True) as shown:
        look = None if result is None else _of_trial(result, workdir, images)[1]
        shipped = compare_built(directory, quantized, look, partial(shown.tell, "ship"))
    if result is None:
        reason = "the trial is not in this working directory (--workdir)" if key else "the folder is of no trial"
        say(f"outputs: not run, {reason}", err=True)
    _tell(shipped, directory)


def _tell(shipped: Shipped, directory: Path) -> None:
    if shipped.binary:
        version = f", toolchain {shipped.toolchain}" if shipped.toolchain else ""
        say(f"{directory / shipped.binary}: for the board{version}")
    say(shipped)
    if not shipped.equal:
        raise typer.Exit(EXIT_DIFFERENT)


def _of_config(config: Path) -> tuple[Shipment, Look]:
    """A conversion by its file, and how what is built runs on its calibration data."""
    from engine.config import load_config
    from engine.convert.pipeline import conversion
    from engine.ship.shipment import Shipment, origin_of
    from harness.shipping.outputs import on_calibration_samples

    loaded = load_config(config)
    run = conversion(loaded)
    return Shipment.of(run, origin_of(loaded)), lambda built: on_calibration_samples(run, built)


def _of_trial(result: TrialResult, workdir: Path, images: int | None) -> tuple[Shipment, Look]:
    """A trial, and how what is built runs on its evaluation images."""
    from engine.simulate.fast import available_cpus
    from harness.shipping.outputs import on_evaluation_images
    from harness.shipping.trial import shipment_of
    from harness.trials.tasks import Bench

    bench = Bench(workdir.resolve(), threads=available_cpus())
    found = shipment_of(result, bench, _origin_of(result, workdir), images)
    return found.shipment, lambda built: on_evaluation_images(found.run, built)


def _named(trial: str | None, best: str | None, march: March | None, workdir: Path) -> TrialResult:
    """The trial that ``TRIAL`` or ``--best`` names."""
    from harness.cli.results import find_trial

    return find_trial(workdir, trial or "") if best is None else _recommended(best, march, workdir)


def _as_good_in_int8(text: str, march: March | None, workdir: Path) -> list[str]:
    """Trials in int8 with one threshold for each tensor that cannot be told apart from the best, the fastest first."""
    from harness.suites.settings import Int16Kind

    summary, choice = _choice(text, march, workdir)
    specs = {spec.key: spec for spec in summary.trials}
    found = [specs[key] for key in (*choice.front, *choice.alike) if key in choice.alike and key in specs]
    return [each.id for each in found if each.settings.int16.kind is Int16Kind.NONE and not each.settings.per_channel]


def _choice(text: str, march: March | None, workdir: Path) -> tuple[SweepSummary, Choice]:
    """What the last sweep of ``SUITE/MODEL`` chose, and its summary.

    Raises:
        ConfigError: there is none, or there are several and no march says which.
    """
    from harness.files.strict_yaml import unknown
    from harness.sweeps.written import load_sweep

    suite, _, model = text.rpartition("/")
    if not suite or not model:
        raise ConfigError(f"--best {text}: expected SUITE/MODEL, such as zoo_all/scene_yolo")
    sweep = load_sweep(workdir, suite)
    choices = [choice for choice in sweep.summary.choices if choice.model == model]
    if not choices:
        raise unknown(f"model in the last sweep of {suite}", model, {each.model for each in sweep.summary.choices})
    if march is not None:
        choices = [choice for choice in choices if choice.march is march]
    marches = ", ".join(dict.fromkeys(choice.march.value for choice in choices))
    if len(choices) != 1:
        raise ConfigError(
            f"--best {text}: the sweep has several marches, {marches}; add --march"
            if choices
            else f"--best {text}: the sweep has nothing for march {march}"
        )
    return sweep.summary, choices[0]


def _recommended(text: str, march: March | None, workdir: Path) -> TrialResult:
    """The trial that the last sweep of ``SUITE/MODEL`` recommends.

    Raises:
        ConfigError: there is none, or it has been removed.
    """
    from harness.trials.trial import TrialStore

    summary, choice = _choice(text, march, workdir)
    suite, best = summary.suite.name, choice.best
    if best is None:
        raise ConfigError(
            f"--best {text}: no setting passes the gates, so that none is recommended; name a trial of your choice "
            f"(ptqlab show {suite} lists them)"
        )
    result = TrialStore(workdir / "trials").read(best)
    if result is None:
        raise ConfigError(f"--best {text}: its trial {best} has been removed; run the suite again")
    say(f"{result.spec.id}: recommended by {suite}", err=True)
    return result


def _origin_of(result: TrialResult, workdir: Path) -> ModelOrigin | None:
    """What the trial's card and files were, as the last sweep that has it keeps it; None where none does."""
    from harness.report.results import sweep_folder
    from harness.sweeps.written import load_sweep

    for folder in sorted(sweep_folder(workdir, "x").parent.glob("[!.]*")):
        try:
            summary = load_sweep(workdir, folder.name).summary
        except ConfigError:
            continue  # of another version; the causes are named less exactly
        if any(spec.key == result.spec.key for spec in summary.trials):
            return summary.origin.models.get(result.spec.model)
    return None


def _built(directory: Path, tool: Toolchain, look: Look, tell: Tell, record: ShipRecord) -> Shipped | None:
    """Build and compare; None where the toolchain's quantised model is in a form that cannot be read (S100)."""
    from engine.ship.build import run_toolchain
    from harness.shipping.check import check_and_keep

    built = run_toolchain(directory, tool, tell)
    if built.quantized is None:
        say(
            f"{built.binary}: for the board; not compared, because {record.unmeasured or 'there is nothing to compare'}"
        )
        return None
    return check_and_keep(directory, built, look, tell)


def how_to_build(directory: Path, record: ShipRecord) -> str:
    """What to do with a ship folder where no toolchain is at hand."""
    s100 = record.march in HB_COMPILE_MARCHES
    command = "hb_compile --config net.yaml" if s100 else "hb_mapper makertbin --config net.yaml --model-type onnx"
    quantized = f"{directory}/model_output/{record.prefix}_quantized_model.onnx"
    text = f'no toolchain: build the file for the board in {directory} with "{command}"'
    return text if s100 else f'{text}, then compare it with "ptqlab ship --verify {directory} {quantized}"'
