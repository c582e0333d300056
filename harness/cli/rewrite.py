"""``ptqlab rewrite``: what can be written otherwise in a float network, so that more of it runs on the BPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.chips import DEFAULT_MARCH
from engine.cli.console import say
from engine.cli.lab.options import InputShapes, read_march
from engine.cli.named import FixedInputs, read_fixed, read_shapes
from harness.cli.options import Json

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

    from engine.rewrite.proposals import PredictedFigures, RewriteProposal, Rewriting

NO_TIME_US = 0.5
"""Predicted microseconds that are shown as none: figures have three decimals of milliseconds."""
MOST_PLACES = 8
"""Names of nodes that are shown of one proposal; ``--json`` has all."""


def rewrite(
    network: Annotated[str, typer.Argument(help="Float ONNX network, or the name of a model card.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", dir_okay=False, help="File for the new network; default: NETWORK_rewritten.onnx."
        ),
    ] = None,
    apply: Annotated[
        list[str] | None,
        typer.Option(
            "--apply",
            metavar="NAME",
            help="Apply a proposal, several joined by commas, or all that keep the outputs (all); repeatable. Without "
            "it, proposals are shown, and with --output all is applied.",
        ),
    ] = None,
    march: Annotated[str, typer.Option(help="BPU architecture.")] = DEFAULT_MARCH.value,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            exists=True,
            file_okay=False,
            help="Folder INPUT/0.npy, … (of one input also 0.npy, …) of what the network is fed with, to compare on "
            "besides random numbers. With a card: its data set.",
        ),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Samples of them at most.")] = 8,
    input_shape: InputShapes = None,
    fix: FixedInputs = None,
    as_json: Json = False,
) -> None:
    """Propose rewrites of a float network that make more of it run on the BPU, proven equal and measured.

    Each is shown with its nodes, what it wins in predicted milliseconds, and the largest
    difference of the outputs in ONNX Runtime. The network is written with those applied.
    """
    import json

    from engine.frontend import load_network
    from engine.ir import refuse_overwriting, save_model
    from engine.rewrite import rewritings_of

    path, card = _network(network)
    wanted = _names(apply, output)
    target = output or Path(f"{path.stem}_rewritten.onnx")
    tail = target.with_name(f"{target.stem}_tail.onnx")
    refuse_overwriting([target, tail] if wanted is not None else [], [path, data])
    source = load_network(path, read_shapes(input_shape) or _shapes(card), fixed=read_fixed(fix))
    found = rewritings_of(source, read_march(march), _feeds(source, data, card, samples), wanted)
    written = []
    if wanted is not None and found.end is not found.start:
        written.append(save_model(found.end.model, target))
        if found.end.cut is not None:
            written.append(save_model(found.end.cut.tail, tail))
    if as_json:
        say(json.dumps({**as_dict(found), "written": list(map(str, written))}, indent=2))
    else:
        _show(path, march, found, written, applied=wanted is not None)


def _names(apply: Sequence[str] | None, output: Path | None) -> tuple[str, ...] | None:
    """What is applied; None for nothing."""
    from engine.rewrite.proposals import ALL

    if apply is None:
        return None if output is None else (ALL,)
    return tuple(name.strip() for each in apply for name in each.split(",") if name.strip())


def _network(name: str) -> tuple[Path, Any]:
    """The file, and the card where ``name`` is that of one."""
    from harness.files.strict_yaml import unknown
    from harness.zoo.cards import load_draft_card, model_cards

    path = Path(name)
    if path.is_file():
        return path, None
    if name not in model_cards():
        raise unknown("file or model card", name, model_cards())
    card, _ = load_draft_card(name)
    return card.model_path(), card


def _shapes(card: Any) -> Mapping[str, tuple[int, ...]]:
    return {} if card is None else {spec.name: spec.shape for spec in card.input_specs if spec.shape is not None}


def _feeds(source: ir.Model, data: Path | None, card: Any, count: int) -> list[dict[str, NDArray[Any]]]:
    """Samples of the user's, one after the other."""
    from engine.debug.analysis.data import read_samples
    from engine.ir import shape_of
    from harness.datasets.base import one_by_one

    if data is None and card is None:
        return []
    if data is None:
        dataset = card.open_dataset()
        split = dataset.split(card.dataset.calibration.split)
        return list(one_by_one(card.float_inputs(split.take(0, min(count, len(split))))))
    arrays = read_samples(source, data, most=count)
    sizes = {str(value.name): shape_of(value)[0] for value in source.graph.inputs}
    total = min(len(array) // sizes[name] for name, array in arrays.items())
    return [
        {name: array[index * sizes[name] : (index + 1) * sizes[name]] for name, array in arrays.items()}
        for index in range(total)
    ]


def as_dict(found: Rewriting) -> dict[str, object]:
    """PredictedFigures of the network before and after, proposals, what was declined, remarks."""
    return {
        "before": _figures(found.start.figures),
        "after": _figures(found.end.figures),
        "refusal": found.refusal,
        "run_on_bpu": list(found.end.requests),
        "proposals": [
            {
                "name": each.name,
                "says": each.says,
                "nodes": list(each.places),
                "wins_us": each.wins_us,
                "before": _figures(each.before),
                "after": _figures(each.after),
                "largest_difference": each.comparison.largest,
                "relative_difference": each.comparison.relative,
                "samples": each.comparison.random + each.comparison.given,
                "run_on_bpu": list(each.requests),
                "keeps_outputs": each.keeps_outputs,
            }
            for each in found.proposals
        ],
        "declined": [{"name": each.name, "nodes": list(each.places), "why": each.why} for each in found.declined],
        "remarks": list(found.remarks),
    }


def _figures(figures: PredictedFigures | None) -> dict[str, object] | None:
    if figures is None:
        return None
    return {
        "bpu_us": figures.bpu_us,
        "cpu_us": figures.cpu_us,
        "subgraphs": figures.subgraphs,
        "bpu_nodes": len(figures.on_bpu),
        "cpu_nodes": list(figures.on_cpu),
    }


def _show(path: Path, march: str, found: Rewriting, written: Sequence[Path], *, applied: bool) -> None:
    from engine.cli.console import open_console

    console = open_console()

    def tell(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    tell(f"{path} on {march}: {_state(found.start.figures) or found.refusal}")
    for proposal in found.proposals:
        _tell_proposal(tell, proposal)
    if not found.proposals:
        tell("Nothing to rewrite: no form was found that would run faster.")
    for declined in found.declined:
        tell(f"not offered  {declined.name} at {_listed(declined.places)}: {declined.why}")
    for remark in found.remarks:
        tell(f"remark       {remark}")
    _tell_end(tell, found, written, applied=applied)


def _tell_proposal(tell: Any, proposal: RewriteProposal) -> None:
    won = proposal.wins_us
    if proposal.before is None:
        gain = "makes the network convertible"
    elif won is None or abs(won) < NO_TIME_US:
        gain = "no time"
    else:
        gain = f"wins {won / 1000:.3f} ms" if won > 0 else f"costs {-won / 1000:.3f} ms"
    tell("")
    tell(f"{proposal.name}: {gain}")
    tell(f"  {proposal.says}")
    if proposal.why and proposal.why != "; ".join(proposal.places):
        tell(f"  why: {proposal.why}")
    tell(f"  nodes: {_listed(proposal.places)}")
    tell(f"  before: {_state(proposal.before) or 'cannot be converted'}")
    tell(f"  after:  {_state(proposal.after) or 'cannot be converted'}")
    if proposal.before is not None and proposal.after is not None:
        left = [name for name in proposal.before.on_cpu if name not in proposal.after.on_cpu]
        if left:
            tell(f"  no longer on the CPU: {_listed(left)}")
    if proposal.keeps_outputs:
        tell(f"  equal: {proposal.comparison.words}")
    else:
        tell("  THE OUTPUTS CHANGE: the network gives the raw heads, and the application runs the tail on them")
        tell(f"  tail on the new outputs equals the old outputs: {proposal.comparison.words}")
    if proposal.requests:
        tell(f"  asked of the BPU for these figures: run_on_bpu: {';'.join(proposal.requests)}")


def _tell_end(tell: Any, found: Rewriting, written: Sequence[Path], *, applied: bool) -> None:
    offered = [each.name for each in found.proposals]
    if not offered:
        return
    tell("")
    if not applied:
        tell(f"Write the network: --apply {','.join(offered)}, or --apply all for what keeps the outputs")
        return
    tell(f"now          {_state(found.end.figures) or 'cannot be converted'}")
    if found.end.requests:
        tell(f"YAML         calibration_parameters: run_on_bpu: '{';'.join(found.end.requests)}'")
        tell("             a Softmax in int8 may cost accuracy: compare with and without (ptqlab bisect, ptqlab run)")
    for path in written:
        tell(f"written      {path}")


def _state(figures: PredictedFigures | None) -> str:
    if figures is None:
        return ""
    return (
        f"{figures.total_us / 1000:.3f} ms (BPU {figures.bpu_us / 1000:.3f}, CPU ~{figures.cpu_us / 1000:.3f}), "
        f"{figures.subgraphs} BPU subgraphs, {figures.cpu_nodes} CPU nodes"
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_PLACES
    return ", ".join(names[:MOST_PLACES]) + (f" and {more} more" if more > 0 else "")
