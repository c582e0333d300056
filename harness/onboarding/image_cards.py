"""Contents of the cards of a network that sees images."""

from __future__ import annotations

from harness.datasets.own_images import OwnImages
from harness.onboarding.contact_sheet import contact_sheet
from harness.onboarding.contents import CardContents, DataContents
from harness.onboarding.exporters import read_exported
from harness.onboarding.judging import Basis
from harness.onboarding.proposal import Proposal
from harness.zoo.cards import Labels

PICTURE = "what_the_network_sees.html"
_ROWS = 4
"""Best normalisations that a card lists."""


def image_contents(proposal: Proposal) -> CardContents:
    """What the cards of ``proposal`` say."""
    source, dataset = proposal.source, proposal.dataset
    options = proposal.data.model_dump(mode="json", exclude_defaults=True)
    options["fit"] = proposal.data.fit.value
    return CardContents(
        name=proposal.name,
        path=proposal.network.path,
        head=proposal.head,
        labels=proposal.labels,
        score=proposal.score,
        float_run=proposal.float_run,
        input_parameters=proposal.decision.best.input_parameters(proposal.network),
        about_input=_about_normalisation(proposal),
        data=DataContents(
            adapter="own_images",
            options=options,
            dataset=dataset,
            calibration=proposal.data.calibration,
            evaluation=proposal.data.evaluation,
            folder=source.folder,
            description=f"{len(source.annotations.images)} images of {source.folder.name}.",
            reason=source.reason,
            about_options="fit: crop, stretch or pad, as the network was trained; see docs/datasets.md.",
            classes=_class_names(proposal, dataset),
        ),
        page=contact_sheet(proposal),
    )


def _class_names(proposal: Proposal, dataset: OwnImages) -> tuple[str, ...]:
    """Names of the classes: of the labels where they count; else those that the file of the network holds."""
    of_labels = dataset.classes if proposal.labels is Labels.DATA else ()
    return of_labels or read_exported(proposal.network.metadata).classes


def _about_normalisation(proposal: Proposal) -> str:
    """Why the input is taken for what it is."""
    network, decision = proposal.network, proposal.decision
    lines = [f"Size and layout: {network.size_reason}; the 1 or 3 of the shape are the channels."]
    if decision.basis is Basis.CONVENTION:
        lines.append(f"Normalisation {decision.best}: not measured, {proposal.reason}.")
    else:
        lines.append(f"Normalisation {decision.best}, {decision.words}: of {len(decision.ranking)} by")
        lines[-1] += f" {'the labels' if decision.basis is Basis.LABELS else 'mirror images'}; {PICTURE} shows them."
        lines += [
            f"  {found.guess}: {found.value:.3f} on {found.images} images{mark and f' ({mark})'}"
            for place, found in enumerate(decision.ranking)
            if (mark := decision.mark(found.guess)) or place < _ROWS
        ]
    lines.append("On the board a camera gives nv12: input_type_rt: nv12 measures what that costs.")
    return "\n".join(lines)
