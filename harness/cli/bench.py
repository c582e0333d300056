"""``ptqlab bench``: speed, memory and conversion time as tables or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.chips import DEFAULT_MARCH
from engine.cli.console import say
from engine.errors import ConfigError

if TYPE_CHECKING:
    from harness.zoo.cards import ModelCard


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Models of the zoo; default: all installed ones.",
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", exists=True, dir_okay=False, help="A quantised model instead.")
    ] = None,
    float_model: Annotated[
        Path | None, typer.Option("--float-model", exists=True, dir_okay=False, help="Its float network, with --model.")
    ] = None,
    march: Annotated[
        str, typer.Option(help="BPU architecture for which models of the zoo are converted.")
    ] = DEFAULT_MARCH.value,
    batches: Annotated[str, typer.Option("--batch", help="Batch sizes, joined by commas.")] = "1,8",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; default: all.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds; the median is reported.")] = 5,
    reference: Annotated[
        bool, typer.Option("--reference/--no-reference", help="Whether to time the numpy reference as well.")
    ] = True,
    seconds: Annotated[float, typer.Option(min=0, help="Least duration of a turn.")] = 0.3,
    profiled: Annotated[
        bool, typer.Option("--profile", help="Also list time, bytes and calls per operator of the simulator.")
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the simulator against float32 ONNX Runtime and the numpy reference, in turns in one process."""
    import json

    from engine.simulate.bench import BenchOptions
    from harness.bench.measure import Pair, as_json, bench_card, bench_pair
    from harness.cli.bench_tables import show

    options = BenchOptions(batch_sizes(batches), threads, rounds, seconds, reference)
    if model is not None:
        if names:
            raise typer.BadParameter("cannot be combined with names of models", param_hint="--model")
        reports = [bench_pair(Pair(model.stem, model, float_model), options)]
    elif float_model is not None:
        raise typer.BadParameter("needs --model", param_hint="--float-model")
    else:
        reports = [bench_card(card, march, options) for card in _cards(names or ())]
    if json_output:
        say(json.dumps(as_json(reports), indent=2))
    else:
        show(reports, profiled)


def batch_sizes(text: str) -> tuple[int, ...]:
    """The numbers of ``--batch``.

    Raises:
        ConfigError: one is no positive integer.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ConfigError(f"--batch {text}: give positive integers joined by commas, such as 1,8")
    return tuple(int(part) for part in parts)


def _cards(names: Sequence[str]) -> list[ModelCard]:
    """The named cards; without names those whose model file is there, said where one is not."""
    from engine.errors import MissingError, ModelError
    from harness.files.strict_yaml import unknown
    from harness.zoo.cards import list_cards, load_card, model_cards

    if names:
        for name in names:
            if name not in model_cards():
                raise unknown("model", name, model_cards())
        return [load_card(name) for name in names]
    found = []
    for card in list_cards():
        try:
            card.model_path()
        except (ModelError, MissingError) as error:
            say(f"left out: {error}", err=True)
        else:
            found.append(card)
    return found
