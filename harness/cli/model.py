"""``ptqlab model``: the converted model of a trial, made again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.cli.console import say
from harness.cli.options import Workdir
from harness.files import workdir as workdirs


def model(
    trial: Annotated[str, typer.Argument(help="Trial id or key.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the files.")],
    workdir: Workdir = workdirs.DEFAULT,
) -> None:
    """Repeat a trial's conversion and write its calibrated and its quantised model.

    A trial records the digests of its models. If a model made now differs, the command says so and
    exits with 1.
    """
    from engine.convert.items import CALIBRATED, QUANTIZED
    from engine.errors import ConfigError
    from engine.ir import save_model
    from harness.backends.bundled import Network
    from harness.backends.items import MODEL_DIGESTS
    from harness.cli.results import find_card, find_trial
    from harness.trials.artefacts import Artefact
    from harness.trials.tasks import Bench, StageClock

    result = find_trial(workdir, trial)
    kept = result.artefacts.get(Artefact.QUANTIZED)
    if kept is None:
        raise ConfigError(f"trial {result.spec.id}: no model of the bundled engine is recorded")
    find_card(result, workdir)
    bench = Bench(workdir.resolve())
    network = Network(result.spec, bench, StageClock(bench.journal(f"model-{result.spec.key}")))
    run, _ = network.trial(network.collect_statistics([result.spec.settings]))
    network.clock.close()
    output.mkdir(parents=True, exist_ok=True)
    for item, name in ((CALIBRATED, "calibrated_model"), (QUANTIZED, "quantized_model")):
        path = output / f"{result.spec.model}_{name}.onnx"
        save_model(run[item], path)
        say(path)
    if run[MODEL_DIGESTS][Artefact.QUANTIZED.value] != kept:
        say("ERROR: this is not the model of the trial; the engine, the tools or the data have changed since", err=True)
        raise typer.Exit(1)
