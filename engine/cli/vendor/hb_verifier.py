"""Commands ``hb_verifier`` and ``hb_model_verifier``: does the ``.bin`` file compute what the quantised model does?"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.common import Truth, command_app, version_option
from engine.cli.logs import logged
from engine.errors import ConfigError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.simulate import Session

LOG = Path("hb_verifier.log")
DUMPS = Path("hb_verifier_dump")
"""Where ``-r True`` leaves every tensor: ``quanti/NAME.npy`` and ``x86/NAME.npy``."""
EXIT_FAILED = 1

app = command_app("hb_verifier", __doc__)
model_app = command_app("hb_model_verifier", __doc__)


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
            "--dump-all-nodes-results",
            "-r",
            case_sensitive=False,
            help="Compare and save every node that both models have.",
        ),
    ] = Truth.FALSE,
    _: Annotated[bool, version_option("hb_verifier")] = False,
) -> None:
    """Compare a quantised model with its .bin file, output by output or node by node."""
    with logged("hb_verifier", LOG) as logger:
        paths = [Path(part.strip()) for part in model.split(",")]
        _refuse_board(board_ip)
        if len(paths) != 2 or not run_sim:
            raise ConfigError(
                "--model: expected two files, such as quantized.onnx,model.bin; both run on the simulator "
                "(--run-sim True)"
            )
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
        raise UnsupportedError(f"board {address}: ptqlab cannot run boards; leave out the address to use the simulator")


def _compare(
    quantized: Path, compiled: Path, given: str | None, digits: int, every_node: bool, logger: logging.Logger
) -> bool:
    """Run both models on the same input and report; whether all values agree to ``digits`` decimal places.

    The ``.bin`` may take several samples at once (``input_batch``); it is given that which is given again and again.
    """
    import numpy as np

    from engine.cli.inputs import read_inputs
    from engine.debug.analysis.verify import Mismatches, save, verify
    from engine.ir import FileNames
    from engine.simulate.loaders import open_model
    from engine.simulate.tensors import random_feed

    def read(session: Session, copies: int) -> dict[str, NDArray[Any]]:
        if given is None:
            return random_feed(session.inputs, copies)
        return {name: np.concatenate([array] * copies) for name, array in read_inputs(session, given).items()}

    first, second = (open_model(_existing(path)) for path in (quantized, compiled))
    counts, names = Mismatches(), FileNames()
    for tensor in verify(first, second, read, every_node):
        found = tensor.mismatches(digits)
        counts += found
        if every_node:
            logger.info(
                "%s: %s", tensor.name, "PASSED" if found.lines == 0 else f"{found.lines} of {found.total} differ"
            )
            save(tensor, DUMPS, names)
        elif found.miss:
            logger.warning("%s: not the same number of values in both models", tensor.name)
    if every_node:
        logger.info("outputs of all nodes saved in %s", DUMPS)
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


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    return path
