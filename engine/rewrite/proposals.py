"""What can be rewritten in a network, what each rewrite wins, and the rewritten network.

Every rewrite is tried on the network with those before it: it is offered where its outputs are equal in ONNX Runtime
and the conversion without data predicts less time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx_ir as ir

from engine.config import NodeInfo
from engine.convert import Draft, check
from engine.convert.original import OriginalTool, original_tool
from engine.errors import ConfigError, PtqlabError, UnsupportedError, hint
from engine.frontend.prepared import given_thresholds
from engine.frontend.versions import MARK_VERSIONS, file_versions
from engine.ir import save_model
from engine.ops.foreign.custom import is_custom
from engine.optimize.checked import CheckedPasses
from engine.optimize.cleanup import RemoveUnusedNodes
from engine.optimize.constants import FoldConstants, LiftConstants
from engine.rewrite.base import Rewrite
from engine.rewrite.defaults import REWRITES
from engine.rewrite.proof import ExactOutputs, Feed, FloatNetwork, OutputComparison
from engine.rewrite.tail import NAME as TAIL
from engine.rewrite.tail import SAYS as TAIL_SAYS
from engine.rewrite.tail import TailCut, cut_tail
from engine.rewrite.versions import SupportedVersions
from engine.terms import Device

ALL = "all"
"""Every proposal that keeps the outputs, as ``--apply`` takes it."""


@dataclass(frozen=True)
class PredictedFigures:
    """What a conversion without data predicts.

    Attributes:
        bpu_us: latency of the BPU subgraphs.
        cpu_us: rough time of what the CPU does.
        subgraphs: of the BPU.
        on_bpu, on_cpu: names of the quantised network's nodes.
        cpu_nodes: operators that the CPU computes.
    """

    bpu_us: float
    cpu_us: float
    subgraphs: int
    on_bpu: tuple[str, ...]
    on_cpu: tuple[str, ...]
    cpu_nodes: int

    @property
    def total_us(self) -> float:
        """BPU and CPU one after the other."""
        return self.bpu_us + self.cpu_us


@dataclass(frozen=True)
class RewriteProposal:
    """One rewrite that is offered.

    Attributes:
        name: as ``--apply`` takes it.
        says: what it does.
        places: nodes of the network that it rewrites.
        before, after: what is predicted without and with it, on top of the proposals before; None where the network
            cannot be converted so.
        comparison: of the outputs.
        requests: nodes that run on the BPU if ``run_on_bpu`` names them; ``after`` has them there.
        keeps_outputs: whether the network gives the same outputs.
        why: what it is good for, where that is no time.
    """

    name: str
    says: str
    places: tuple[str, ...]
    before: PredictedFigures | None
    after: PredictedFigures | None
    comparison: OutputComparison
    requests: tuple[str, ...] = ()
    keeps_outputs: bool = True
    why: str = ""

    @property
    def wins_us(self) -> float | None:
        """Predicted microseconds less; None where one of both cannot be converted."""
        return None if self.before is None or self.after is None else self.before.total_us - self.after.total_us


@dataclass(frozen=True)
class Declined:
    """One rewrite that fits and is not offered.

    Attributes:
        name: of the rewrite.
        places: nodes.
        why: a sentence.
    """

    name: str
    places: tuple[str, ...]
    why: str


@dataclass
class RewriteState:
    """A network on the way.

    Attributes:
        model: the network.
        figures: what is predicted; None where it cannot be converted.
        requests: nodes that run on the BPU on request.
        cut: the tail that was cut off.
    """

    model: ir.Model
    figures: PredictedFigures | None
    requests: tuple[str, ...] = ()
    cut: TailCut | None = None


@dataclass
class Rewriting:
    """The proposals for one network.

    Attributes:
        start: the network as it was read.
        end: with all that was applied.
        proposals: offered, in order.
        declined: fit, and not offered.
        remarks: what could not be rewritten, a sentence each.
        refusal: why the network cannot be converted as it is; empty where it can.
    """

    start: RewriteState
    end: RewriteState
    proposals: list[RewriteProposal] = field(default_factory=list)
    declined: list[Declined] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    refusal: str = ""


def rewritings_of(
    source: ir.Model,
    march: str,
    given: Sequence[Feed] = (),
    wanted: Sequence[str] | None = None,
) -> Rewriting:
    """Try all rewrites on ``source``, or those that are ``wanted``.

    Args:
        source: a source model (:func:`engine.frontend.load_network`); not changed.
        march: name of an architecture.
        given: samples of the user's, arrays by input name, besides random numbers.
        wanted: names of rewrites, or ``all`` for those that keep the outputs; None: all are tried, and the end is that
            of those that keep the outputs.

    Raises:
        UnsupportedError: ONNX Runtime cannot run the network, or it holds custom operators or thresholds.
        ConfigError: a name of ``wanted`` is unknown, or what it names is not offered.
    """
    names = rewrite_names()
    for name in wanted or ():
        if name not in (*names, ALL):
            raise ConfigError(f"--apply {name!r}: expected {ALL} or some of {', '.join(names)}{hint(name, names)}")
    _refuse(source)
    model = source.clone()
    model.metadata_props.pop(MARK_VERSIONS, None)  # of the user's file; what is written has its own
    CheckedPasses(model).run((LiftConstants(), FoldConstants(), RemoveUnusedNodes()))
    with tempfile.TemporaryDirectory(prefix="ptqlab_rewrite_") as folder:
        trial = _Trial(Path(folder), march, ExactOutputs.of(source, given), file_versions(source))
        figures, refusal = trial.predicted(model, ())
        start = RewriteState(model, figures)
        found = Rewriting(start, start, refusal=refusal)
        for name in _chosen(names, wanted):
            trial.attempt(found, name)
        _retry(trial, found)
        _cut(trial, found, apply=wanted is not None and TAIL in wanted, wanted=wanted is None or TAIL in wanted)
    _refuse_missing(found, wanted or ())
    return found


def rewrite_names() -> tuple[str, ...]:
    """Names as ``--apply`` takes them, in the order in which they are tried."""
    return (*(each.name for each in REWRITES), SupportedVersions.name, TAIL)


def _chosen(names: Sequence[str], wanted: Sequence[str] | None) -> Iterator[str]:
    for name in names:
        if name != TAIL and (wanted is None or ALL in wanted or name in wanted):
            yield name


def _refuse(source: ir.Model) -> None:
    if given_thresholds(source):
        raise UnsupportedError(
            "the network brings thresholds (a calibrated model, or quantisation-aware training), which are of its own "
            "tensors: rewrite the float network that it was made from"
        )
    custom = next((node for node in source.graph if is_custom(node)), None)
    if custom is not None:
        raise UnsupportedError(
            f"node {custom.name} is a custom operator, which ONNX Runtime cannot run: nothing could be proven equal"
        )


def _refuse_missing(found: Rewriting, wanted: Sequence[str]) -> None:
    """Names that were asked for and are not offered are an error that says why."""
    offered = {proposal.name for proposal in found.proposals}
    for name in wanted:
        if name in offered or name == ALL:
            continue
        why = next((each.why for each in found.declined if each.name == name), "")
        why = why or next(iter(found.remarks), "nothing in the network that the CPU computes is of that form")
        raise ConfigError(f"--apply {name}: not offered for this network: {why}")


@dataclass(frozen=True)
class _Trial:
    """Where rewrites are tried."""

    folder: Path
    march: str
    exact: ExactOutputs
    versions: tuple[int, int]

    def predicted(self, model: ir.Model, requests: Sequence[str]) -> tuple[PredictedFigures | None, str]:
        """What a conversion without data predicts; None and why where it is refused."""
        path = save_model(model, self.folder / "network.onnx")
        info: Mapping[str, NodeInfo] = {name: NodeInfo.model_validate({"ON": Device.BPU.value}) for name in requests}
        try:
            result = check(path, Draft(self.march, node_info=info), original=_anything(self.march))
        except PtqlabError as error:
            return None, str(error).replace(f"{path}: ", "")
        performance = result.performance
        return PredictedFigures(
            performance.latency_us,
            performance.cpu_us,
            len(performance.subgraphs),
            tuple(row.node for row in result.nodes if row.on == Device.BPU),
            tuple(row.node for row in result.nodes if row.on == Device.CPU),
            len(performance.cpu_nodes),
        ), ""

    def attempt(self, found: Rewriting, name: str) -> None:
        """Try the rewrite ``name`` at the end of ``found``, and take it on where it is worth it."""
        state = found.end
        model = state.model.clone()
        change = self._pass(name, state)
        checked = CheckedPasses(model)
        try:
            modified = checked.run((change,)) if isinstance(change, Rewrite) else change(model).modified
        finally:
            found.remarks += [remark for remark in change.remarks if remark not in found.remarks]
        if not modified:
            return
        if isinstance(change, Rewrite):
            checked.run((FoldConstants(), RemoveUnusedNodes()))
        places, requests = tuple(change.places), (*state.requests, *change.requests)
        comparison, failure = self._compared(model)
        if comparison is None or not comparison.equal:
            why = failure or f"not equal to the network: {comparison.words if comparison else ''}"
            found.declined.append(Declined(name, places, why))
            return
        figures, refusal = self.predicted(model, requests)
        proposal = RewriteProposal(
            name,
            change.says,
            places,
            state.figures,
            figures,
            comparison,
            tuple(change.requests),
            why=_why(change, places),
        )
        if isinstance(change, Rewrite) and not _is_wanted(change, proposal):
            found.declined.append(Declined(name, places, refusal or _no_gain(proposal)))
            return
        found.proposals.append(proposal)
        found.end = RewriteState(model, figures, requests)

    def _pass(self, name: str, state: RewriteState) -> Rewrite | SupportedVersions:
        if name == SupportedVersions.name:
            return SupportedVersions(original_tool(self.march), self.versions)
        kind = next(each for each in REWRITES if each.name == name)
        return kind(None if state.figures is None else state.figures.on_cpu)

    def _compared(self, model: ir.Model) -> tuple[OutputComparison | None, str]:
        try:
            return self.exact.compare(model), ""
        except UnsupportedError as error:
            return None, str(error)


def _anything(march: str) -> OriginalTool:
    """The command of the original, as if it took every network: what it refuses is said once, by its rewrite."""
    every = (0, 1 << 30)
    return replace(original_tool(march), opsets=every, ir_versions=every, outputs=None, one_sample=False)


_ACCURACY = "the integers are nearer to the float network: what a warning of the conversion names is gone"


def _why(change: Rewrite | SupportedVersions, places: Sequence[str]) -> str:
    """What a change is good for besides time."""
    if isinstance(change, Rewrite):
        return _ACCURACY if change.for_accuracy else ""
    return "; ".join(places)


def _is_wanted(change: Rewrite, proposal: RewriteProposal) -> bool:
    """Whether less time is predicted; of a change for accuracy, whether all of it and what it replaces is the BPU's."""
    before, after = proposal.before, proposal.after
    if not change.for_accuracy or before is None or after is None:
        return _is_worth_it(proposal)
    places = set(proposal.places)
    parts = tuple(f"{place}_" for place in places)
    return not any(name in places for name in before.on_cpu) and not any(
        name.startswith(parts) for name in after.on_cpu
    )


def _is_worth_it(proposal: RewriteProposal) -> bool:
    """Whether less time is predicted; of a network that could not be converted, that it can be."""
    if proposal.before is None or proposal.after is None:
        return proposal.before is None and proposal.after is not None
    return proposal.after.total_us < proposal.before.total_us


def _no_gain(proposal: RewriteProposal) -> str:
    before, after = proposal.before, proposal.after
    if before is None or after is None:
        return "the network cannot be converted with it either"
    return (
        f"no gain: {before.total_us / 1000:.3f} ms would become {after.total_us / 1000:.3f}, {before.cpu_nodes} nodes "
        f"on the CPU {after.cpu_nodes}"
    )


def _retry(trial: _Trial, found: Rewriting) -> None:
    """Try once more what had no gain before others were applied."""
    again = [each for each in found.declined if each.why.startswith("no gain") or "cannot be converted" in each.why]
    if not found.proposals:
        return
    for each in again:
        found.declined.remove(each)
        trial.attempt(found, each.name)


def _cut(trial: _Trial, found: Rewriting, *, apply: bool, wanted: bool) -> None:
    """Offer to cut the decode tail, and cut it where that is asked for."""
    if not wanted:
        return
    state = found.end
    # What the BPU computes on request only is worth to be cut off too.
    on_cpu = () if state.figures is None else state.figures.on_cpu
    cut = cut_tail(state.model, {*on_cpu, *state.requests})
    if cut is None:
        return
    try:
        heads, tails = FloatNetwork(cut.head), FloatNetwork(cut.tail)
        results = []
        for feed in trial.exact.feeds:
            made = dict(zip(_names(cut.head), heads.run(feed), strict=True))
            made |= dict(zip(_names(cut.tail), tails.run({**feed, **made}), strict=True))
            results.append([made[name] for name in trial.exact.names])
    except PtqlabError as error:
        found.declined.append(Declined(TAIL, cut.names, str(error)))
        return
    comparison = trial.exact.compared(results)
    figures, refusal = trial.predicted(cut.head, [name for name in state.requests if name not in cut.names])
    proposal = RewriteProposal(TAIL, TAIL_SAYS, cut.names, state.figures, figures, comparison, keeps_outputs=False)
    if not comparison.equal or not _is_worth_it(proposal):
        why = _no_gain(proposal) if comparison.equal else f"not equal to the network: {comparison.words}"
        found.declined.append(Declined(TAIL, cut.names, refusal or why))
        return
    found.proposals.append(proposal)
    if apply:
        requests = tuple(name for name in state.requests if name not in cut.names)
        found.end = RewriteState(cut.head, figures, requests, cut)


def _names(model: ir.Model) -> tuple[str, ...]:
    return tuple(str(value.name) for value in model.graph.outputs)
