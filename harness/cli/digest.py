"""``ptqlab digest``: what the card of a model or data set must hold to be tied to its files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli.console import say

if TYPE_CHECKING:
    from collections.abc import Mapping


def digest(
    name: Annotated[str, typer.Argument(help="Name of a model card or a data set card.")],
    write: Annotated[bool, typer.Option("--write", help="Write what was found into the card.")] = False,
    score: Annotated[
        bool,
        typer.Option(
            "--score", help="For a model: also measure the float score, which takes one pass over the images."
        ),
    ] = False,
) -> None:
    """Compute the digest of a card's files as they are now; --write puts it into the card.

    For a data set, also print the image format, the splits and the parts of the digest, so that a
    later difference can be named. A new card may lack all of these keys, and float_score.
    """
    import yaml

    from harness.card_files import rewrite

    path, found = _found(name, score=score)
    say(yaml.safe_dump(found, sort_keys=False).rstrip())
    if write:
        say(f"{path}: {'written' if rewrite(path, found) else 'holds this already'}", err=True)


def _found(name: str, *, score: bool) -> tuple[Path, Mapping[str, Any]]:
    """The card's file, and what it should say."""
    from engine.errors import ConfigError
    from harness.datasets.registry import data_set_cards, described
    from harness.strict_yaml import unknown
    from harness.zoo.cards import model_cards

    models, data_sets = model_cards(), data_set_cards()
    if name in models and name in data_sets:
        raise ConfigError(f"{name!r} is both a model and a data set; rename one of them")
    if name in data_sets:
        if score:
            raise ConfigError("--score measures models; a data set has no float score")
        return data_sets[name], described(name)
    if name not in models:
        raise unknown("card", name, [*models, *data_sets])
    return models[name], _of_model(name, score=score)


def _of_model(name: str, *, score: bool) -> dict[str, Any]:
    from harness.zoo.cards import load_draft_card
    from harness.zoo.float_baseline import float_score

    card, has_score = load_draft_card(name)
    found: dict[str, Any] = {"digest": card.digest_of_file()}
    if score or not has_score:
        measured = float_score(card.model_copy(update=found))
        found["float_score"] = {"value": round(measured.value, 6), "stderr": round(measured.stderr, 6)}
    return found
