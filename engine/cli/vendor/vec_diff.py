"""Command ``vec_diff``: how far two dumps are apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.common import command_app, version_option
from engine.cli.console import say
from engine.errors import InferenceError, PtqlabError

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

app = command_app("vec_diff", __doc__)

HEADINGS = ("name", "cosine_similarity", "euclidean_distance", "mean_absolute_error", "mean_squared_error")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command; ``arguments`` default to those of the process."""
    app(args=None if arguments is None else list(arguments))


@app.command()
def vec_diff(
    first: Annotated[Path, typer.Argument(exists=True, help="A dump (.txt, .npy or raw .bin), or a folder of dumps.")],
    second: Annotated[Path, typer.Argument(exists=True, help="The dump to compare it with, or a folder.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="CSV file; default: the terminal.")] = None,
    dtype: Annotated[str, typer.Option(help="Element type of raw .bin dumps.")] = "float32",
    _: Annotated[bool, version_option("vec_diff")] = False,
) -> None:
    """Compare two dumps, or files of the same name in two folders: cosine, Euclidean distance, MAE, MSE."""
    try:
        from engine.ir import refuse_overwriting, write_atomically

        pairs = _pairs(first, second)
        refuse_overwriting([output], [path for _, *both in pairs for path in both])
        rows = [",".join(HEADINGS), *(_row(name, a, b, dtype) for name, a, b in pairs)]
        text = "\n".join(rows) + "\n"
        if output is None:
            say(text, nl=False)
        else:
            write_atomically(output, text.encode())
    except PtqlabError as error:
        say(f"ERROR {error}", err=True)
        raise typer.Exit(error.exit_code) from None


def _pairs(first: Path, second: Path) -> list[tuple[str, Path, Path]]:
    if first.is_dir() != second.is_dir():
        raise InferenceError(f"{first} and {second}: expected two files or two folders")
    if not first.is_dir():
        return [(first.name, first, second)]
    names = sorted({file.name for file in first.iterdir()} & {file.name for file in second.iterdir()})
    if not names:
        raise InferenceError(f"{first} and {second} have no file name in common")
    return [(name, first / name, second / name) for name in names]


def _row(name: str, first: Path, second: Path, dtype: str) -> str:
    import numpy as np

    a, b = (read_dump(path, dtype).reshape(-1).astype(np.float64) for path in (first, second))
    if a.size != b.size:
        raise InferenceError(f"{first} holds {a.size} values, {second} holds {b.size}")
    with np.errstate(all="ignore"):  # infinite and undefined values give inf and nan, which are printed
        norms = float(np.linalg.norm(a) * np.linalg.norm(b))
        cosine = float(a @ b) / norms if norms else float(np.array_equal(a, b))
        difference = a - b
        figures = (
            cosine,
            float(np.linalg.norm(difference)),
            float(np.abs(difference).mean()) if a.size else 0.0,
            float(np.square(difference).mean()) if a.size else 0.0,
        )
    return ",".join([name, *(f"{figure:.9g}" for figure in figures)])


def read_dump(path: Path, dtype: str) -> NDArray[Any]:
    """Values of a dump: text (numbers separated by blanks or commas), ``.npy``, else raw binary.

    Raises:
        InferenceError: the file is no such dump.
    """
    import numpy as np

    from engine.untrusted import read_npy

    try:
        if path.suffix == ".txt":
            return np.array(path.read_text(encoding="utf-8").replace(",", " ").split(), np.float64)
        if path.suffix == ".npy":
            return read_npy(path)
        return np.frombuffer(path.read_bytes(), np.dtype(dtype))
    except (OSError, ValueError, TypeError) as error:
        raise InferenceError(f"{path}: cannot be read as a dump of {dtype}: {error}") from error
