"""The page of one trial, beside its other files: figures, worst samples, configuration, nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.pages import figures_data, rendered
from engine.rulebook.known import how_to_settle
from harness.report.node_data import table_as_graph
from harness.report.templates import template
from harness.shipping.record import ShippedTrial
from harness.trials.figures import TrialNode
from harness.trials.files import CONFIG_FILE, WORST_FILE
from harness.trials.trial import TrialResult


def render_trial(
    result: TrialResult,
    nodes: Sequence[TrialNode],
    files: Mapping[str, bytes],
    built: ShippedTrial | None = None,
) -> bytes:
    """The page, HTML.

    Args:
        result: of the trial.
        nodes: its node table.
        files: what lies beside it.
        built: what the user's toolchain made of it; None where it was not asked.
    """
    text = rendered(
        template("trial.html.j2"),
        result=result,
        spec=result.spec,
        nodes=nodes,
        files=sorted(files),
        built=built,
        how_to_settle=how_to_settle(),
        worst=WORST_FILE in files,
        plotly="",
        data=figures_data({}, graphs={"graph": table_as_graph(nodes)} if nodes else {}),
        config=files.get(CONFIG_FILE, b"").decode(),
    )
    return text.encode()
