"""The page of one trial, beside its other files: figures, worst samples, configuration, nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.pages import figures_data, rendered
from harness.report.node_data import table_as_graph
from harness.report.templates import template
from harness.trials.figures import TrialNode
from harness.trials.files import CONFIG_FILE, WORST_FILE
from harness.trials.trial import TrialResult


def render_trial(result: TrialResult, nodes: Sequence[TrialNode], files: Mapping[str, bytes]) -> bytes:
    """The page, HTML; ``files``: what lies beside it."""
    text = rendered(
        template("trial.html.j2"),
        result=result,
        spec=result.spec,
        nodes=nodes,
        files=sorted(files),
        worst=WORST_FILE in files,
        plotly="",
        data=figures_data({}, graphs={"graph": table_as_graph(nodes)} if nodes else {}),
        config=files.get(CONFIG_FILE, b"").decode(),
    )
    return text.encode()
