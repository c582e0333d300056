"""Commands ``hb_verifier`` and ``hb_model_verifier``: does the ``.bin`` file compute what the quantised model does?"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.common import Truth, version_option
from engine.cli.logs import logged
from engine.errors import ConfigError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.simulate import Session

LOG = Path("hb_verifier.log")
EXIT_FAILED = 1

app = typer.Typer(name="hb_verifier", help=__doc__, add_completion=False, rich_markup_mode=None)
model_app = typer.Typer(name="hb_model_verifier", help=__doc__, add_completion=False, rich_markup_mode=None)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``hb_verifier``; ``arguments`` default to those of the process."""
    app(args=None if arguments is None else list(arguments))


def model_main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``hb_model_verifier``."""
    model_app(args=None if arguments is None else list(arguments))


@app.command()
def hb_verifier(
    model: Annotated[str, typer.Option("--model", "-m", help="Quantised model and .bin file, joined by a comma.")],
    board_ip: Annotated[str | None, typer.Option("--board-ip", "-b", help="Address of a board.")] = None,
    run_sim: Annotated[
        Truth, typer.Option("--run-sim", "-s", case_sensitive=False, help="Run the .bin file here.")
    ] = Truth.TRUE,
    input_img: Annotated[
        str | None, typer.Option("--input-img", "-i", help="Files joined by commas, as file or name:file.")
    ] = None,
    compare_digits: Annotated[int, typer.Option("--compare_digits", "-c", min=0, max=15, help="Decimal places.")] = 5,
    dump_all_nodes_results: Annotated[
        Truth,
        typer.Option(
            "--dump-all-nodes-results", "-r", case_sensitive=False, help="Compare every node that both models have."
        ),
    ] = Truth.FALSE,
    _: Annotated[bool, version_option("hb_verifier")] = False,
) -> None:
    """Compare a quantised model with its .bin file, output by output or node by node."""
    with logged("hb_verifier", LOG) as logger:
        paths = [Path(part.strip()) for part in model.split(",")]
        _refuse_board(board_ip)
        if len(paths) != 2 or not run_sim:
            raise ConfigError("--model: expected two files, as quantized.onnx,model.bin, both run on the simulator")
        passed = _compare(paths[0], paths[1], input_img, compare_digits, bool(dump_all_nodes_results), logger)
    if not passed:
        raise typer.Exit(EXIT_FAILED)


@model_app.command()
def hb_model_verifier(
    quanti_model: Annotated[Path, typer.Option("--quanti_model", "--quanti-model", "-q", help="Quantised model.")],
    bin_model: Annotated[Path, typer.Option("--bin_model", "--bin-model", "-b", help="Its .bin file.")],
    arm_board_ip: Annotated[str | None, typer.Option("--arm-board-ip", "-a", help="Address of a board.")] = None,
    input_img: Annotated[str | None, typer.Option("--input-img", "-i", help="Image, .bin or .npy file.")] = None,
    compare_digits: Annotated[int, typer.Option("--compare_digits", "-d", min=0, max=15, help="Decimal places.")] = 5,
    _: Annotated[bool, version_option("hb_model_verifier")] = False,
) -> None:
    """Compare a quantised model with its .bin file on one input."""
    with logged("hb_model_verifier", LOG) as logger:
        _refuse_board(arm_board_ip)
        passed = _compare(quanti_model, bin_model, input_img, compare_digits, False, logger)
    if not passed:
        raise typer.Exit(EXIT_FAILED)


def _refuse_board(address: str | None) -> None:
    if address is not None:
        raise UnsupportedError(f"board {address}: ptqlab runs no boards; leave the address away to use the simulator")


def _compare(
    quantized: Path, compiled: Path, given: str | None, digits: int, every_node: bool, logger: logging.Logger
) -> bool:
    """Run both models on the same input and report; whether all values agree to ``digits`` decimal places.

    The ``.bin`` may take several samples at once (``input_batch``); it is given that which is given again and again.
    """
    import numpy as np

    from engine.cli.inputs import read_inputs
    from engine.ir import load_model
    from engine.simulate import Session
    from engine.simulate.tensors import random_feed

    sessions = [_session(Session, quantized), _session(Session, compiled)]
    if every_node:
        models = [load_model(quantized), sessions[1].model]
        shared = _shared_values(models)
        sessions = [Session(_with_outputs(model, shared)) for model in models]
    batch = max(1, _rows(sessions[1]) // _rows(sessions[0]))
    if given is None:
        feed = random_feed(sessions[0].inputs, batch)
    else:
        feed = {name: np.concatenate([array] * batch) for name, array in read_inputs(sessions[0], given).items()}
    results = [session.run(_matching(feed, session)) for session in sessions]
    counts = Mismatches()
    for (name, first), (_, second) in zip(*(result.items() for result in results), strict=False):
        found = count_mismatches(first, second, digits)
        counts = counts + found
        if every_node:
            logger.info("%s: %s", name, "PASSED" if found.lines == 0 else f"{found.lines} of {found.total} differ")
    counts = counts + Mismatches(miss=abs(len(results[0]) - len(results[1])))
    if counts.lines == 0:
        logger.info("Quanti.onnx and X86 result Strict check PASSED")
        return True
    logger.info("mismatch line num: %d", counts.lines)
    logger.info("****************************")
    logger.info("mismatch.line_miss num: %d", counts.miss)
    logger.info("mismatch.line_diff num: %d", counts.diff)
    logger.info("mismatch.line_nan num: %d", counts.nan)
    logger.info("****************************")
    logger.info("total line num: %d", counts.total)
    logger.info("mismatch rate: %s", counts.lines / max(counts.total, 1))
    logger.error("Quanti.onnx and X86 result check FAILED")
    return False


class Mismatches:
    """Counters of a strict check.

    Attributes:
        miss: values that one side lacks.
        diff: values that differ.
        nan: values that are no number on one side.
        total: values compared.
    """

    def __init__(self, miss: int = 0, diff: int = 0, nan: int = 0, total: int = 0) -> None:
        self.miss, self.diff, self.nan, self.total = miss, diff, nan, total

    def __add__(self, other: Mismatches) -> Mismatches:
        return Mismatches(
            self.miss + other.miss, self.diff + other.diff, self.nan + other.nan, self.total + other.total
        )

    @property
    def lines(self) -> int:
        """All mismatches."""
        return self.miss + self.diff + self.nan


def count_mismatches(first: NDArray[Any], second: NDArray[Any], digits: int) -> Mismatches:
    """Compare two outputs value by value, to ``digits`` decimal places."""
    import numpy as np

    a, b = (np.asarray(array, np.float64).reshape(-1) for array in (first, second))
    common = min(a.size, b.size)
    a, b = a[:common], b[:common]
    nan = np.isnan(a) != np.isnan(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        far = ~same & ~nan & ~(np.abs(a - b) < 0.5 * 10.0**-digits)
    total = max(first.size, second.size)
    return Mismatches(miss=total - common, diff=int(far.sum()), nan=int(nan.sum()), total=total)


def _session(kind: type[Session], path: Path) -> Session:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    return kind(path)


def _shared_values(models: Sequence[Any]) -> list[str]:
    """Names of tensors that nodes of both models compute, in the order of the first."""
    names = [[str(value.name) for node in model.graph for value in node.outputs] for model in models]
    return [name for name in names[0] if name in set(names[1])]


def _with_outputs(model: Any, names: Sequence[str]) -> Any:
    """A copy of ``model`` with the named tensors as outputs."""
    copy = model.clone()
    values = {str(value.name): value for node in copy.graph for value in node.outputs}
    copy.graph.outputs[:] = [values[name] for name in names]
    return copy


def _rows(session: Session) -> int:
    """First dimension of what the session takes."""
    return next((info.shape[0] for info in session.inputs if info.shape), 1)


def _matching(feed: Mapping[str, NDArray[Any]], session: Session) -> dict[str, NDArray[Any]]:
    """``feed`` under the names of a session that may have lost the nodes at its inputs."""
    missing = [info.name for info in session.inputs if info.name not in feed]
    if missing:
        raise ConfigError(f"the models have different inputs: {', '.join(missing)} is in one only")
    return {info.name: feed[info.name] for info in session.inputs}
