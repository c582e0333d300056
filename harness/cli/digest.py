"""``ptqlab digest``: what cards must hold to be tied to their files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from engine.cli.console import say
from harness.cli.options import Workdir
from harness.files import workdir as workdirs

if TYPE_CHECKING:
    from harness.cards.updates import Update


def digest(
    what: Annotated[
        str,
        typer.Argument(help="A suite, a folder with zoo/ or datasets/, or a card: its file or name.", metavar="NAME"),
    ],
    write: Annotated[bool, typer.Option("--write", help="Write what was found into the cards.")] = False,
    score: Annotated[
        bool,
        typer.Option(
            "--score/--no-score",
            help="Whether to measure the float scores, which takes one pass over the images.",
        ),
    ] = True,
    workdir: Workdir = workdirs.DEFAULT,
) -> None:
    """Compute what cards should say of their files as they are now, and show the differences; --write writes it.

    Of a model that is the digest and the float score; of a data set the image format, the splits, the digest and its
    parts, and the float scores of the models that use it. A new card may lack all of these keys.
    """
    from engine.errors import PtqlabError
    from harness.cards.updates import cards_of, of_data_set, of_follower, of_model

    cards = cards_of(what, workdir)
    differing = 0
    outdated = set[str]()
    for name in cards.data_sets:
        update = of_data_set(name)
        if update.changed:
            outdated.add(name)
        differing += _show(update, write=write)
    measurable = write or not outdated
    if score and not measurable:
        say("float scores are measured with --write, once the cards of the data sets are right", err=True)
    for name in cards.models:
        if score and measurable:
            say(f"measuring the float score of {name}", err=True)
        differing += _show(of_model(name, score=score and measurable), write=write)
    for name in cards.followers if score and measurable and outdated else ():
        say(f"measuring the float score of {name}", err=True)
        try:
            differing += _show(of_follower(name), write=write)
        except PtqlabError as error:
            say(f"WARNING: the float score of {name} is as it was: {error}", err=True)
    if differing and not write:
        say("nothing was written; --write does that", err=True)


def _show(update: Update, *, write: bool) -> bool:
    """Show what differs, and write it; whether something differs."""
    from harness.cards.rewriting import rewrite

    if not update.changed:
        say(f"{update.path}: holds this already")
        return False
    say(f"{update.path}{': written' if write else ''}")
    for line in update.lines():
        say(f"  {line}")
    for remark in update.remarks:
        say(f"WARNING: {remark}", err=True)
    if write:
        rewrite(update.path, update.changed)
    return True
