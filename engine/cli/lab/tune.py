"""``ptqlab tune``: int16 and CPU placement for more accuracy under a latency budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import onnx_ir as ir

    from engine.config import Config
    from engine.tune import Mix, MixedPrecisionSearch, TuningResult


def tune(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The float ONNX model.")],
    config: Annotated[Path, typer.Option("--config", "-c", exists=True, dir_okay=False, help="Its configuration.")],
    latency: Annotated[
        float | None, typer.Option("--latency", min=0, help="Most microseconds per frame; else 1.25 times int8's.")
    ] = None,
    trials: Annotated[int, typer.Option("--trials", min=2, help="Most models to build.")] = 40,
    minutes: Annotated[float, typer.Option("--minutes", min=0, help="After these no further model is built.")] = 10.0,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Calibration samples to score on.")] = 16,
    cpu: Annotated[bool, typer.Option("--cpu", help="Nodes that cannot be int16 may go to the CPU.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for the YAML fragment.")] = None,
) -> None:
    """Find the nodes to compute in int16, print int8 -> all-int16 -> chosen mix and the YAML fragment to paste.

    Scores are similarities of the integer model to the float one on calibration data; latencies are estimates and do
    not hold the time of CPU nodes.
    """
    import yaml

    from engine.config import load_config
    from engine.ir import write_atomically
    from engine.tune import Budget

    search = _search(load_config(config), model, samples)
    found = search.run(Budget(latency, trials, minutes, cpu), report=lambda text: typer.echo(text, err=True))
    typer.echo(_table(found))
    fragment = yaml.safe_dump(found.fragment(), sort_keys=False) if found.fragment() else "# int8 throughout\n"
    typer.echo(fragment)
    if output is not None:
        write_atomically(output, fragment.encode())


def _search(config: Config, path: Path, samples: int) -> MixedPrecisionSearch:
    """The search on the model in ``path`` under everything else that ``config`` says."""
    from engine.compile import compile_model
    from engine.convert import calibration_options, compile_options, open_data, placement_options
    from engine.errors import ConfigError
    from engine.frontend import preprocess
    from engine.frontend.onnx import input_names, load
    from engine.optimize import optimize
    from engine.perf import estimate
    from engine.tune import Evaluator, MixedPrecisionSearch

    specs = config.input_specs(input_names(path))
    source = load(path, {spec.name: spec.shape for spec in specs if spec.shape is not None})
    data = open_data(config, source, specs)
    if data is None:
        raise ConfigError("calibration_parameters.cal_data_dir: tuning compares models on calibration data; give some")
    march = config.march.value
    optimized = optimize(preprocess.insert(source, specs), march)

    def latency(quantized: ir.Model) -> float:
        return estimate(compile_model(quantized, march, compile_options(config), path.stem)).latency_us

    placement = placement_options(config, optimized)
    evaluator = Evaluator(optimized, data, samples)
    return MixedPrecisionSearch(optimized, march, data, calibration_options(config), placement, evaluator, latency)


def _table(found: TuningResult) -> str:
    lines = [f"{'':16}{'cosine':>10}{'worst':>10}{'agreement':>11}{'us':>10}{'int16':>7}{'CPU':>5}"]
    for name, mix in (("int8", found.int8), ("all int16", found.ceiling), ("chosen", found.chosen)):
        lines.append(f"{name:16}{_row(mix)}")
    lines.append(
        f"budget {found.latency_budget_us:.0f} us; {found.trials} models built in {found.seconds:.0f} s\n"
        "most sensitive: " + ", ".join(f"{name} {value:.6f}" for name, value in found.ranking[:5])
    )
    return "\n".join(lines)


def _row(mix: Mix) -> str:
    score = mix.score
    agreement = "-" if score.agreement is None else f"{score.agreement:.4f}"
    return (
        f"{score.cosine:10.6f}{score.worst_cosine:10.6f}{agreement:>11}"
        f"{mix.latency_us:10.0f}{len(mix.int16):7}{len(mix.cpu):5}"
    )
