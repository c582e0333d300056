"""``ptqlab init``: cards and a suite for a network of the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from engine.chips import DEFAULT_MARCH, March
from engine.cli.console import say
from engine.cli.lab.options import InputShapes
from engine.cli.named import FixedInputs, read_fixed, read_shapes
from harness.cli.checkpoints import (
    Decoded,
    OwnData,
    UserPythonOption,
    described_images,
    exported,
    refuse_no_samples,
    refuse_other_names,
)

if TYPE_CHECKING:
    from harness.checkpoints.export import ExportedNetwork, ExportWishes
    from harness.onboarding.contents import CardContents, FloatRun
    from harness.onboarding.head_guess import HeadGuess
    from harness.onboarding.proposal import Proposal
    from harness.zoo.cards import TaskKind


class AskedTask(StrEnum):
    """What a network is for, as ``--task`` has it."""

    CLASSIFICATION = "classification"
    DETECTION = "detection"
    SEGMENTATION = "segmentation"
    OCR = "ocr"
    NONE = "none"

    @property
    def kind(self) -> TaskKind:
        """As cards have it."""
        from harness.zoo.cards import TaskKind

        kinds = {AskedTask.NONE: TaskKind.OTHER, AskedTask.OCR: TaskKind.RECOGNITION}
        return kinds.get(self) or TaskKind(self.value)


OwnImagesFolder = Annotated[Path | None, typer.Option("--images", help="Folder of images, or of .npy arrays.")]
SweptImages = Annotated[
    Path | None,
    typer.Option(
        "--images",
        help="With a network: folder of images, or of .npy arrays, to sweep it on.",
    ),
]
OwnLabels = Annotated[
    Path | None,
    typer.Option(
        "--labels", exists=True, help="Labels of the images or arrays; default: the labels found among the images."
    ),
]
TaskOption = Annotated[
    AskedTask | None, typer.Option("--task", help="Task of the network; none: compare outputs only. Default: guessed.")
]
OwnSize = Annotated[
    str | None,
    typer.Option("--size", help="Height x width of the input, such as 640x640, if the model does not fix it."),
]
OwnDictionary = Annotated[
    Path | None,
    typer.Option(
        "--dictionary",
        exists=True,
        dir_okay=False,
        help="Characters of a network that reads text, one per line; default: the file's metadata, or beside it.",
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label-column", metavar="NAME", help="Column of a table that holds the labels or texts; default: guessed."
    ),
]


@dataclass(frozen=True)
class Wishes:
    """What the user says of a network of their own.

    Attributes:
        labels, task, size, dictionary, column, fix, shapes, data, python, decoded: the options of these names, as they
            were given.
    """

    labels: Path | None = None
    task: AskedTask | None = None
    size: str | None = None
    dictionary: Path | None = None
    column: str | None = None
    fix: Sequence[str] = ()
    shapes: Sequence[str] = ()
    data: Path | None = None
    python: Path | None = None
    decoded: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said."""
        return self == Wishes()

    @property
    def of_export(self) -> ExportWishes:
        """What is said of an export to ONNX."""
        from harness.checkpoints.export import ExportWishes

        return ExportWishes(self.python, self.decoded, parse_size(self.size), read_shapes(self.shapes))

    @property
    def words(self) -> str:
        """All but labels, data and what an export is asked, for a key."""
        dictionary = "" if self.dictionary is None else self.dictionary.read_bytes().hex()
        said = (self.task or "", parse_size(self.size) or "", dictionary, self.column or "", *self.fix, *self.shapes)
        return " ".join(map(str, said)).rstrip()


def init(
    model: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="Float ONNX model, or a file of PyTorch.",
        ),
    ],
    images: OwnImagesFolder = None,
    data: OwnData = None,
    labels: OwnLabels = None,
    task: TaskOption = None,
    size: OwnSize = None,
    dictionary: OwnDictionary = None,
    label_column: LabelColumn = None,
    fix: FixedInputs = None,
    input_shape: InputShapes = None,
    python: UserPythonOption = None,
    decoded: Decoded = False,
    march: Annotated[March, typer.Option("--march", help="BPU architecture.")] = DEFAULT_MARCH,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", file_okay=False, help="New folder; default: ptqlab_NAME.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Skip the trial run of one image through all stages.")] = False,
) -> None:
    """Write a model card, a data set card and a suite for your own network.

    Input, head, normalisation and labels are guessed from the file and the images. The cards
    give the reasons, and a page shows what the network sees under each guess. Arrays (.npy,
    one per sample; with several inputs a sub-folder per input) are fed as they are.
    """
    wishes = Wishes(
        labels, task, size, dictionary, label_column, tuple(fix or ()), tuple(input_shape or ()), data, python, decoded
    )
    with TemporaryDirectory(prefix="ptqlab-init-") as temporary:
        from harness.cli.listing import check_suite
        from harness.onboarding.image_cards import PICTURE
        from harness.onboarding.own_cards import check_free, write_cards
        from harness.onboarding.proposal import card_name

        folder = output or Path(f"ptqlab_{card_name(model)}")
        check_free(folder)
        own = _own_network(model, images, wishes, Path(temporary), folder.with_name(f"{folder.name}_data"))
        with _proposed(own, march) as contents:
            suite = write_cards(contents, folder, march)
    say(f"written     {folder}: {contents.name}.yaml, zoo/, datasets/")
    if contents.page:
        say(f"picture     {(folder / PICTURE).resolve().as_uri()}")
    check_suite(str(suite), quick=quick)
    say(f"next        ptqlab run {suite}")


@dataclass
class OwnSuite:
    """The suite of a network that is swept without cards of its own.

    Attributes:
        path: of the suite.
    """

    path: Path
    _float_run: FloatRun | None = None

    def float_run(self) -> FloatRun | None:
        """What the float model gave when the cards were made just now; handed out once, as it may be large."""
        found, self._float_run = self._float_run, None
        return found


def suite_of_network(model: Path, images: Path | None, wishes: Wishes, workdir: Path) -> OwnSuite:
    """The suite of a network that is swept without cards of its own: they are made in ``workdir``, once.

    Raises:
        PtqlabError: as of :func:`init`.
    """
    from engine.errors import ConfigError

    if not model.is_file():
        raise ConfigError(f"{model}: no such file")
    own = _own_network(model, images, wishes, workdir / OWN_FOLDER / "exported", workdir / OWN_FOLDER)
    from harness.onboarding.own_cards import made_before, write_cards
    from harness.onboarding.proposal import card_name

    asked = " ".join((own.wishes.words, *own.names)).rstrip()
    folder = made_before(workdir / OWN_FOLDER, own.network, own.images, wishes.labels, asked)
    suite = folder / f"{card_name(model)}.yaml"
    if suite.is_file():
        say(f"cards       {folder}, written earlier")
        return OwnSuite(suite)
    with _proposed(own, DEFAULT_MARCH) as contents:
        try:
            write_cards(contents, folder, DEFAULT_MARCH)
        except ConfigError:
            if not suite.is_file():
                raise
            say(f"cards       {folder}, written meanwhile by another process")
            return OwnSuite(suite)
    say(f"cards       {folder}")
    return OwnSuite(suite, contents.float_run)


@dataclass(frozen=True)
class _OwnNetwork:
    """A network of the user's own and what goes with it.

    Attributes:
        given: the file as the user names it.
        export: how it became an ONNX file; None where it is one.
        images: folder of images or arrays.
        names: of the classes, where a data YAML has them.
        wishes: what the ONNX file still needs.
    """

    given: Path
    export: ExportedNetwork | None
    images: Path
    names: tuple[str, ...]
    wishes: Wishes

    @property
    def network(self) -> Path:
        """The ONNX file."""
        return self.given if self.export is None else self.export.path

    @property
    def origin(self) -> str:
        """What made the cards."""
        options = "".join(f" --fix {text}" for text in self.wishes.fix)
        options += "".join(f" --input-shape {text}" for text in self.wishes.shapes)
        made = "" if self.export is None else f", exported from {self.given.name} {self.export.words}"
        return f"ptqlab init{options}{made}"


def _own_network(model: Path, images: Path | None, wishes: Wishes, folder: Path, links: Path) -> _OwnNetwork:
    """The network as an ONNX file below ``folder``, which was looked at first of all.

    ``links``: folder for links to images of several folders.
    """
    found, names = described_images(model, images, wishes.data, links)
    export = exported(model, folder, wishes.of_export)
    own = _OwnNetwork(model, export, found, names, wishes if export is None else replace(wishes, shapes=()))
    from harness.onboarding.convertible import read_float_model

    read_float_model(own.network)
    refuse_no_samples(own.images)
    return own


@contextmanager
def _proposed(own: _OwnNetwork, march: March) -> Iterator[CardContents]:
    """What cards say of a network and its images or arrays; what was read and guessed is printed."""
    from engine.errors import ConfigError
    from harness.onboarding.array_network import holds_arrays
    from harness.onboarding.array_proposal import propose_arrays
    from harness.onboarding.fixed_inputs import with_fixed_inputs
    from harness.onboarding.image_cards import image_contents
    from harness.onboarding.proposal import propose

    images, wishes = own.images, own.wishes
    size, column = parse_size(wishes.size), wishes.column or ""
    task = wishes.task.kind if wishes.task else None
    with with_fixed_inputs(own.network, read_fixed(wishes.fix), read_shapes(wishes.shapes)) as network:
        if not holds_arrays(images, wishes.labels):
            proposal = propose(
                network, images, wishes.labels, task, size, wishes.dictionary, march, column, _tell_duration
            )
            show_proposal(proposal)
            contents = image_contents(proposal)
        elif size is not None:
            raise ConfigError(f"--size {size[0]}x{size[1]}: arrays have the size that they are fed with")
        else:
            contents, notes = propose_arrays(network, images, task, wishes.dictionary, wishes.labels, march, column)
            show_arrays(contents, notes)
        refuse_other_names(own.names, contents.head)
        named = replace(contents.data, classes=own.names or contents.data.classes)
        yield replace(contents, data=named, origin=own.origin)


def _tell_duration(text: str) -> None:
    say(f"measuring   {text}")


OWN_FOLDER = "own"
"""Folder of a working directory that holds the cards of networks that were swept without any."""


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Height and width of ``640x480``, or of ``640`` for both."""
    if text is None:
        return None
    words = text.lower().split("x")
    if len(words) > 2 or not all(word.isdecimal() and 0 < int(word) <= _LARGEST for word in words):
        raise typer.BadParameter(f"{text!r}: expected height x width in pixels, such as 640x480", param_hint="--size")
    return int(words[0]), int(words[-1])


_LARGEST = 8192


def show_proposal(proposal: Proposal) -> None:
    """Say what was read and guessed, and how sure that is."""
    from harness.onboarding.judging import Basis
    from harness.zoo.cards import Labels

    network, head, decision = proposal.network, proposal.head, proposal.decision
    shape = "x".join(map(str, network.shape))
    say(
        f"input       {network.input_name}: {shape} {network.layout.value} ({network.size_reason}), "
        f"{network.seconds * 1000:.0f} ms per image"
    )
    _show_head(head)
    listed = proposal.source.annotations
    scored = "labels" if proposal.labels is Labels.DATA else "the float model's answers (agreement)"
    say(f"images      {len(listed.images)}, {proposal.source.reason}; scored with {scored}")
    say(f"size        {proposal.data.fit.value} to {network.size[0]}x{network.size[1]}: usual for this head")
    say(f"input is    {decision.best}: {decision.words}; the file alone: {proposal.reason}")
    if decision.basis is not Basis.CONVENTION:
        agreement = "agreement of the outputs for images and their mirror images, in nats"
        say(f"            by {head.metric if decision.basis is Basis.LABELS else agreement}:")
        for found in decision.ranking:
            mark = decision.mark(found.guess)
            say(f"            {found.value:6.3f}  {found.guess} ({found.images} images){mark and f'  <- {mark}'}")
    if proposal.labels is Labels.DATA:
        say(f"float       {head.metric} {proposal.score.value:.4f} on {proposal.data.evaluation} images")
        if decision.first_class:
            counted = "1 is added to the labels: output 0 is the background"
            if decision.first_class < 0:
                counted = "labels count from 1: label 1 is output 0"
            say(f"classes     {counted}, which scores better than the numbers as they are")
    for note in proposal.notes:
        say(f"WARNING: {note}", err=True)


def show_arrays(contents: CardContents, notes: Sequence[str]) -> None:
    """Say what was read of arrays, and how outputs are compared."""
    from harness.zoo.cards import Labels

    head, data = contents.head, contents.data
    for name, part in data.dataset.parts.items():
        say(f"input       {name}: {'x'.join(map(str, (1, *part.shape)))}, arrays as they are (no mean, no scale)")
    _show_head(head)
    is_labelled = contents.labels is Labels.DATA
    scored = (
        f", {data.reason}; scored with labels" if is_labelled else "; scored with the float model's answers (agreement)"
    )
    say(f"arrays      {data.description.split()[0]}{scored}")
    if is_labelled:
        say(f"float       {head.metric} {contents.score.value:.4f} on {data.evaluation} arrays")
    for note in notes:
        say(f"WARNING: {note}", err=True)


def _show_head(head: HeadGuess) -> None:
    from harness.zoo.cards import TaskKind

    guessed = f"{head.kind}, {'sure' if head.is_sure else 'likely'}"
    say(
        f"head        {'not guessed' if head.task is TaskKind.OTHER and head.is_sure else guessed}: {head.reason}; "
        f"metric {head.metric}"
    )
