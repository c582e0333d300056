"""The performance model: latency and DDR traffic of a compiled model."""

from __future__ import annotations

from engine.perf.nodes import NodeCost, node_costs
from engine.perf.performance import LayerPerformance, Performance, SubgraphPerformance, estimate

__all__ = ["LayerPerformance", "NodeCost", "Performance", "SubgraphPerformance", "estimate", "node_costs"]
