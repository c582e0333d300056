"""``ptqlab export``: a quantised model in a form that other tools run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from engine.cli.console import say


def export(
    source: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="A quantised model, made by ptqlab or by the original toolchain."
        ),
    ],
    target: Annotated[Path, typer.Argument(dir_okay=False, help="The .onnx file to write.")],
    standard: Annotated[
        bool,
        typer.Option("--standard", help="Use standard ONNX operators only; stock ONNX Runtime computes the same bits."),
    ] = False,
) -> None:
    """Rewrite a quantised model for other tools; --standard is the only form so far."""
    if not standard:
        raise typer.BadParameter("choose a form; the only one so far is --standard", param_hint="--standard")

    import onnx
    import onnx_ir as ir

    from engine.ir import refuse_overwriting, save_model
    from engine.simulate.loaders import open_model
    from engine.simulate.portable import to_standard

    refuse_overwriting([target], [source])
    model = to_standard(open_model(source))
    onnx.checker.check_model(ir.to_proto(model))
    save_model(model, target)
    say(f"{target}: {len(model.graph)} nodes, operator set {model.opset_imports['']}")
