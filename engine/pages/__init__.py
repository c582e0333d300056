"""HTML pages: one template and style for all of them, their content security policy, their plots and graphs."""

from engine.pages.graph import GraphNode, graph_data, places
from engine.pages.render import (
    figure_data,
    figures_data,
    package_loader,
    packed,
    packed_plotly,
    page_templates,
    policy,
    rendered,
)

__all__ = [
    "GraphNode",
    "figure_data",
    "figures_data",
    "graph_data",
    "package_loader",
    "packed",
    "packed_plotly",
    "page_templates",
    "places",
    "policy",
    "rendered",
]
