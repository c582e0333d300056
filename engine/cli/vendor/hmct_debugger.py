"""``hmct-debugger``: the accuracy debugger on the command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.common import command_app, version_option
from engine.cli.console import say
from engine.cli.logs import spoken
from engine.cli.progress import watched
from engine.errors import ConfigError, PtqlabError

app = command_app("hmct-debugger", "Find the nodes of a calibrated model that lose accuracy.", no_args_is_help=True)

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL_OR_FILE", help="Calibrated model.")]
DataFolder = Annotated[
    Path, typer.Argument(metavar="CALIBRATION_DATA", help="Folder written by debug_mode: dump_calibration_data.")
]
SaveDir = Annotated[Path, typer.Option("-s", "--save_dir", "--save-dir", help="Folder for pictures and pages.")]
_PICTURES, _SAMPLES = "engine.debug.analysis.plots", "engine.debug.analysis.data"
"""Loggers that report the files of pictures, and how many samples are left out."""
DEFAULT_SAMPLES = 8
"""The vendor's guide takes all samples unless ``data_num`` says otherwise. Our functions do so too; the commands, in
front of which somebody waits, take this many.
"""
METRICS = "cosine-similarity, mse, mre, sqnr, chebyshev"
_DATA_NUM = f"Number of samples, or all; default: the first {DEFAULT_SAMPLES}."


@app.callback()
def common(version: Annotated[bool, version_option("hmct-debugger")] = False) -> None:
    """Find the nodes of a calibrated model that lose accuracy."""


@app.command()
def get_sensitivity_of_nodes(
    model_or_file: ModelFile,
    calibrated_data: DataFolder,
    metrics: Annotated[
        str, typer.Option("-m", "--metrics", help=f"{METRICS}; or a list, the first sorts.")
    ] = "cosine-similarity",
    output_node: Annotated[
        str | None, typer.Option("-o", "--output_node", help="Ordinary node to measure at; default: the outputs.")
    ] = None,
    node_type: Annotated[str, typer.Option("-n", "--node_type", help="node, weight or activation.")] = "node",
    data_num: Annotated[str | None, typer.Option("-d", "--data_num", help=_DATA_NUM)] = None,
    verbose: Annotated[str, typer.Option("-v", "--verbose", help="True to print the table.")] = "False",
    interested_nodes: Annotated[str | None, typer.Option("-i", "--interested_nodes", help="Only these nodes.")] = None,
) -> None:
    """Rank nodes by how much quantising each of them alone changes the outputs."""
    from engine.debug import get_sensitivity_of_nodes as run

    is_verbose = read_flag("--verbose", verbose)
    count, most = read_count("--data_num", data_num)
    with spoken(_SAMPLES, err=True), watched("sensitivity of nodes") as watch:
        found = run(
            model_or_file,
            read_names(metrics),
            calibrated_data,
            output_node,
            node_type,
            count,
            is_verbose,
            read_names(interested_nodes) if interested_nodes else None,
            most=most,
            watch=watch,
        )
    if not is_verbose:
        say(f"{len(found)} nodes ranked; -v True prints the table")


@app.command()
def plot_acc_error(
    model_or_file: ModelFile,
    calibrated_data: DataFolder,
    save_dir: SaveDir = Path(),
    quantize_node: Annotated[
        str | None, typer.Option("-q", "--quantize_node", help="Nodes to quantise: a list, or nested lists.")
    ] = None,
    non_quantize_node: Annotated[
        str | None, typer.Option("-nq", "--non_quantize_node", help="Nodes not to quantise: a list, or nested lists.")
    ] = None,
    metric: Annotated[str, typer.Option("-m", "--metric", help=METRICS)] = "cosine-similarity",
    average_mode: Annotated[
        str, typer.Option("-a", "--average_mode", help="True: average over the first n.")
    ] = "False",
) -> None:
    """Draw how the error accumulates over the nodes of partly quantised models."""
    from engine.debug import plot_acc_error as run

    with spoken(_PICTURES), watched("accumulated error") as watch:
        run(
            save_dir,
            calibrated_data,
            model_or_file,
            read_nested(quantize_node),
            read_nested(non_quantize_node),
            metric,
            read_flag("--average_mode", average_mode),
            watch=watch,
        )


@app.command()
def plot_distribution(
    model_or_file: ModelFile,
    calibrated_data: DataFolder,
    nodes_list: Annotated[str, typer.Option("-n", "--nodes_list", help="Nodes of any kind.")],
    save_dir: SaveDir = Path(),
) -> None:
    """Draw the values of nodes before and after quantisation."""
    from engine.debug import plot_distribution as run

    with spoken(_PICTURES), watched("distributions") as watch:
        run(save_dir, model_or_file, calibrated_data, read_names(nodes_list), watch=watch)


@app.command()
def get_channelwise_data_distribution(
    model_or_file: ModelFile,
    calibrated_data: DataFolder,
    nodes_list: Annotated[str, typer.Option("-n", "--nodes_list", help="Calibration nodes.")],
    save_dir: SaveDir = Path(),
    axis: Annotated[int | None, typer.Option("-a", "--axis", help="Axis of the channels.")] = None,
) -> None:
    """Draw one box per channel of the inputs of calibration nodes."""
    from engine.debug import get_channelwise_data_distribution as run

    with spoken(_PICTURES), watched("channels") as watch:
        run(save_dir, model_or_file, calibrated_data, read_names(nodes_list), axis, watch=watch)


@app.command()
def sensitivity_analysis(
    model_or_file: ModelFile,
    calibrated_data: DataFolder,
    pick_threshold: Annotated[
        float, typer.Option("-p", "--pick_threshold", help="Nodes below this cosine are sensitive.")
    ] = 0.999,
    data_num: Annotated[int, typer.Option("-d", "--data_num", help="Number of samples.")] = 1,
    verbose: Annotated[str, typer.Option("-v", "--verbose", help="True to print the tables.")] = "False",
    save_dir: SaveDir = Path(),
) -> None:
    """Find sensitive nodes, their cause, and how much accuracy returns if they are not quantised."""
    from engine.debug import sensitivity_analysis as run

    is_verbose = read_flag("--verbose", verbose)
    with spoken(_PICTURES), watched("sensitive nodes") as watch:
        found = run(model_or_file, calibrated_data, pick_threshold, data_num, is_verbose, save_dir, watch=watch)
    if not is_verbose:
        say(f"{len(found.causes)} of {len(found.scores)} nodes are sensitive; -v True prints the tables")


@app.command()
def runall(
    model_or_file: ModelFile,
    calibrated_data: DataFolder,
    save_dir: SaveDir = Path(),
    ns_metrics: Annotated[
        str, typer.Option("-nm", "--ns_metrics", help=f"{METRICS}; or a list, the first sorts.")
    ] = "cosine-similarity",
    output_node: Annotated[
        str | None, typer.Option("-o", "--output_node", help="Ordinary node to measure at; default: the outputs.")
    ] = None,
    node_type: Annotated[str | None, typer.Option("-nt", "--node_type", help="node, weight or activation.")] = None,
    data_num: Annotated[str | None, typer.Option("-dn", "--data_num", help=_DATA_NUM)] = None,
    verbose: Annotated[str, typer.Option("-v", "--verbose", help="True to print the tables.")] = "False",
    interested_nodes: Annotated[str | None, typer.Option("-i", "--interested_nodes", help="Only these nodes.")] = None,
    dis_nodes_list: Annotated[str | None, typer.Option("-dnl", "--dis_nodes_list", help="Nodes to draw.")] = None,
    cw_nodes_list: Annotated[
        str | None, typer.Option("-cn", "--cw_nodes_list", help="Calibration nodes to draw boxes of.")
    ] = None,
    axis: Annotated[int | None, typer.Option("-a", "--axis", help="Axis of the channels.")] = None,
    quantize_node: Annotated[str | None, typer.Option("-qn", "--quantize_node", help="As for plot-acc-error.")] = None,
    non_quantize_node: Annotated[
        str | None, typer.Option("-nqn", "--non_quantize_node", help="As for plot-acc-error.")
    ] = None,
    ae_metric: Annotated[str, typer.Option("-am", "--ae_metric", help=METRICS)] = "cosine-similarity",
    average_mode: Annotated[str, typer.Option("-avm", "--average_mode", help="True: means.")] = "False",
) -> None:
    """Run all analyses and write one page, accuracy_debug.html."""
    from engine.debug import runall as run

    count, most = read_count("--data_num", data_num)
    with spoken(_SAMPLES, err=True), watched("runall") as watch:
        page = run(
            model_or_file,
            calibrated_data,
            save_dir,
            read_names(ns_metrics),
            output_node,
            node_type,
            count,
            read_flag("--verbose", verbose),
            read_names(interested_nodes) if interested_nodes else None,
            read_names(dis_nodes_list) if dis_nodes_list else None,
            read_names(cw_nodes_list) if cw_nodes_list else None,
            axis,
            read_nested(quantize_node),
            read_nested(non_quantize_node),
            ae_metric,
            read_flag("--average_mode", average_mode),
            most=most,
            watch=watch,
        )
    say(f"page: {page}")


for _command in (
    get_sensitivity_of_nodes,
    plot_acc_error,
    plot_distribution,
    get_channelwise_data_distribution,
    sensitivity_analysis,
):
    # The documents also spell commands with underscores.
    app.command(_command.__name__, hidden=True)(_command)


def read_names(text: str) -> list[str]:
    """``['Conv_2','Conv_90']``, with or without its quotes, which a shell removes, or one name."""
    found = read_nested(text) or []
    if any(not isinstance(item, str) for item in found):
        raise ConfigError(f"{text}: expected a list of names, not nested lists")
    return [str(item) for item in found]


def read_nested(text: str | None) -> list[str] | list[list[str]] | None:
    """A list of names or of such lists, with or without quotes; one name becomes a list.

    Raises:
        ConfigError: brackets do not match.
    """
    if text is None:
        return None
    stripped = text.strip()
    if not stripped.startswith("["):
        return [_unquoted(stripped)]
    if not stripped.endswith("]"):
        raise ConfigError(f"{text}: the list is not closed by ]; quote it if it holds blanks")
    inner = stripped[1:-1].strip()
    if not inner.startswith("["):
        return [_unquoted(part) for part in inner.split(",") if part.strip()]
    if not inner.endswith("]"):
        raise ConfigError(f"{text}: an inner list is not closed by ]")
    parts = [part.strip().lstrip(",").strip() for part in inner.split("]")[:-1]]
    if any(not part.startswith("[") for part in parts):
        raise ConfigError(f"{text}: expected either names or lists of names, not both")
    return [[_unquoted(name) for name in part[1:].split(",") if name.strip()] for part in parts]


def read_count(option: str, text: str | None) -> tuple[int | None, int | None]:
    """The number of samples, None for all, and how many at most where it is None: a number, ``all``, or no option.

    Raises:
        ConfigError: anything else.
    """
    if text is None:
        return None, DEFAULT_SAMPLES
    if text.lower() in ("all", "none"):
        return None, None
    try:
        return int(text), None
    except ValueError as error:
        raise ConfigError(f"{option} {text}: expected a number of samples, or all") from error


def read_flag(option: str, text: str) -> bool:
    """``True`` or ``False``.

    Raises:
        ConfigError: anything else.
    """
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"{option} {text}: expected True or False")
    return text.lower() == "true"


def _unquoted(text: str) -> str:
    return text.strip().strip("'\"").strip()


def main() -> None:
    """Console script ``hmct-debugger``."""
    try:
        app()
    except PtqlabError as error:
        say(f"error: {error}", err=True)
        sys.exit(error.exit_code)
