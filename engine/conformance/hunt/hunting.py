"""The hunt: networks are drawn, converted by both toolchains, compared; what departs is grouped and made smaller."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.chips import March
from engine.conformance.cases import RecordedCase, find_cases
from engine.conformance.hunt.agreement import DrawOutcome
from engine.conformance.hunt.draws import Draw, draw, write_draw
from engine.conformance.hunt.groups import DepartureGroup, counts, group_name, keep_group, operators_of, read_groups
from engine.conformance.hunt.shrinking import AskBudget, Shrinker
from engine.conformance.hunt.signatures import Signature, signatures
from engine.conformance.hunt.windows import UserNetwork
from engine.conformance.measures import Row
from engine.conformance.run import MeasurePlan, Measurer
from engine.errors import ConfigError, PtqlabError
from engine.fingerprint import digest_of
from engine.ir import write_atomically

SETTINGS = "hunt.json"
OUTCOMES = "draws.jsonl"
"""Files of a hunt: what it draws from, and a line per draw."""
DRAWING_SHARE = 0.6
"""Share of the time in which networks are drawn; in the rest those that depart are made smaller."""

Ask = Callable[[Path, Path], Path]
"""Has the original convert a configuration and keeps the case below a folder; the folder of the case."""


class HuntSettings(BaseModel):
    """What decides the draws of a hunt.

    Attributes:
        seed: of the draws.
        marches: one is drawn for each.
        network: digest of the network that windows are taken from; empty for networks of the grammar.
    """

    model_config = ConfigDict(frozen=True)

    seed: int
    marches: tuple[March, ...]
    network: str = ""


@dataclass(frozen=True)
class HuntPlan:
    """How a hunt goes on.

    Attributes:
        to: folder of its results; what is there is gone on with.
        settings: what decides the draws.
        network: what windows are taken from; None for networks of the grammar.
        draws: how many there are to be in all; None for as many as the time allows.
        minutes: how long it takes; None until there are as many draws.
        shrinking: how often the original is asked to make the network of one group smaller.
        measuring: how cases are measured; its workers are those of the hunt.
    """

    to: Path
    settings: HuntSettings
    network: UserNetwork | None
    draws: int | None
    minutes: float | None
    shrinking: int
    measuring: MeasurePlan


@dataclass(frozen=True)
class Answer:
    """What both toolchains made of a draw.

    Attributes:
        row: the measures; None where the original gave no answer.
        failure: why it gave none.
        signatures: in which ways it departs.
        case: what was recorded; None where nothing was.
    """

    row: Row | None
    failure: str = ""
    signatures: tuple[Signature, ...] = ()
    case: RecordedCase | None = None


@dataclass(frozen=True)
class Findings:
    """What a hunt found.

    Attributes:
        settings: what decided the draws.
        outcomes: of all draws, by index.
        groups: by signature, the most frequent first.
    """

    settings: HuntSettings
    outcomes: tuple[DrawOutcome, ...]
    groups: tuple[DepartureGroup, ...]


@dataclass(frozen=True)
class Watcher:
    """Told what happens, from any thread.

    Attributes:
        drawn: each draw.
        grouped: each group that is new or has become smaller.
        stopped: that the hunt ends early: what the original is at may be ended.
    """

    drawn: Callable[[DrawOutcome], None] = lambda outcome: None
    grouped: Callable[[DepartureGroup], None] = lambda group: None
    stopped: Callable[[], None] = lambda: None


def settings_for(seed: int, marches: Sequence[March], network: Path | None) -> HuntSettings:
    """The settings of a hunt; ``network`` is the file that windows are taken from."""
    digest = digest_of(network.read_bytes().hex()) if network is not None else ""
    return HuntSettings(seed=seed, marches=tuple(marches), network=digest)


def hunt(plan: HuntPlan, ask: Ask, watcher: Watcher | None = None) -> Findings:
    """Go on with the hunt in ``plan.to``, or begin it.

    Args:
        plan: how.
        ask: has the original convert; called from as many threads as there are workers.
        watcher: told what happens.

    Raises:
        ConfigError: the folder holds a hunt with other settings, or cannot be read.
        ModelError: no part of the network can be converted by itself.
    """
    plan.to.mkdir(parents=True, exist_ok=True)
    _begin(plan)
    with Measurer(plan.measuring) as measurer:
        return _Hunt(plan, ask, measurer, watcher or Watcher()).run()


class _Hunt:
    """One run of it."""

    def __init__(self, plan: HuntPlan, ask: Ask, measurer: Measurer, watcher: Watcher) -> None:
        self._plan, self._ask, self._measurer, self._watcher = plan, ask, measurer, watcher
        self._begin = time.monotonic()
        self._outcomes = {each.index: each for each in _outcomes(plan.to)}
        self._groups = read_groups(plan.to)
        self._taken = set(self._outcomes)
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self) -> Findings:
        """Draw, then shrink."""
        workers = self._plan.measuring.workers
        with ThreadPoolExecutor(workers) as pool:
            try:
                for done in [pool.submit(self._draw_on) for _ in range(workers)]:
                    done.result()
                tuple(pool.map(self._shrink, self._unshrunk()))
            except BaseException:
                self._stopped.set()
                self._watcher.stopped()
                raise
        outcomes = tuple(self._outcomes[index] for index in sorted(self._outcomes))
        return Findings(self._plan.settings, outcomes, _sorted_groups(self._groups, outcomes))

    def _has_time(self, share: float = 1.0) -> bool:
        minutes = self._plan.minutes
        late = minutes is not None and time.monotonic() - self._begin > 60 * minutes * share
        return not late and not self._stopped.is_set()

    def _next(self) -> int | None:
        """The lowest index that no one has taken; None where there are enough."""
        with self._lock:
            index = next(number for number in range(len(self._taken) + 1) if number not in self._taken)
            share = DRAWING_SHARE if self._plan.shrinking else 1.0
            if not self._has_time(share) or (self._plan.draws is not None and index >= self._plan.draws):
                return None
            self._taken.add(index)
            return index

    def _draw_on(self) -> None:
        while (index := self._next()) is not None:
            item = self._drawn(index)
            with tempfile.TemporaryDirectory(prefix=".draw-", dir=self._plan.to) as folder:
                answer = self._answer(item, Path(folder))
                outcome = DrawOutcome(
                    index=index,
                    march=item.march.value,
                    options=item.options,
                    blocks=item.blocks,
                    nodes=len(item.model.graph.node),
                    row=answer.row,
                    failure=answer.failure,
                    signatures=answer.signatures,
                )
                fresh = self._enter(outcome, item, answer)
            self._watcher.drawn(outcome)
            for group in fresh:
                self._watcher.grouped(group)

    def _drawn(self, index: int) -> Draw:
        settings, network = self._plan.settings, self._plan.network
        if network is None:
            return draw(settings.seed, index, settings.marches)
        return network.window(settings.seed, index, settings.marches)

    def _answer(self, item: Draw, folder: Path) -> Answer:
        """What both make of ``item``; files below ``folder``."""
        config = write_draw(item, folder / "given")
        try:
            (case,) = find_cases(self._ask(config, folder / "cases"))
        except PtqlabError as error:
            return Answer(None, " ".join(str(error).split()))
        if not case.refusal and not case.quantized.is_file():
            return Answer(None, "the conversion was cut off")
        row = self._measurer.measure(case)
        return Answer(row, "", signatures(row, case, item), case)

    def _enter(self, outcome: DrawOutcome, item: Draw, answer: Answer) -> list[DepartureGroup]:
        """Keep an outcome, and a case of each signature that is new."""
        with self._lock:
            fresh = [each for each in answer.signatures if each not in self._groups]
            for signature in fresh:
                group = DepartureGroup(
                    name=group_name(signature),
                    signature=signature,
                    first=outcome.index,
                    **_recorded(item, answer, signature),
                )
                if answer.case is not None:
                    self._groups[signature] = keep_group(group, answer.case.folder, self._plan.to)
            with (self._plan.to / OUTCOMES).open("a", encoding="utf-8") as stream:
                stream.write(outcome.model_dump_json() + "\n")
            self._outcomes[outcome.index] = outcome
            return [self._groups[signature] for signature in fresh]

    def _unshrunk(self) -> list[DepartureGroup]:
        outcomes = tuple(self._outcomes.values())
        return [group for group in _sorted_groups(self._groups, outcomes) if not group.shrunk]

    def _shrink(self, group: DepartureGroup) -> None:
        """Make the network of ``group`` as small as it gets, if there is time."""
        if not self._has_time() or not self._plan.shrinking:
            return
        with ExitStack() as folders:
            best: tuple[Draw, Answer] | None = None

            def departs(item: Draw) -> bool:
                nonlocal best
                if not self._has_time():
                    return False
                folder = tempfile.TemporaryDirectory(prefix=".shrink-", dir=self._plan.to)
                answer = self._answer(item, Path(folder.name))
                if group.signature not in answer.signatures:
                    folder.cleanup()
                    return False
                folders.enter_context(folder)
                best = item, answer
                return True

            shrinker = Shrinker(departs, AskBudget(self._plan.shrinking))
            item = replace(self._drawn(group.first), name=group.name)
            shrinker.smallest(item, _place(self._outcomes[group.first], group.signature))
            update: dict[str, object] = {"asked": group.asked + shrinker.budget.asked, "shrunk": self._has_time()}
            if best is not None:
                update |= _recorded(*best, group.signature)
                smaller = group.model_copy(update=update)
                case = best[1].case
                if case is not None:
                    with self._lock:
                        self._groups[group.signature] = keep_group(smaller, case.folder, self._plan.to)
            elif update["shrunk"]:
                smaller = group.model_copy(update=update)
                with self._lock:
                    self._groups[group.signature] = smaller
                    keep_group(smaller, self._plan.to / "groups" / group.name / group.name, self._plan.to)
            self._watcher.grouped(self._groups[group.signature])


def _recorded(item: Draw, answer: Answer, signature: Signature) -> dict[str, object]:
    """What a group says of its recorded case."""
    row = answer.row
    departure = "" if row is None or row.departure is None else str(row.departure)
    if row is not None and signature.stage == "simulator":
        departure = row.simulator_message or f"the original's file gives outputs that differ by {row.simulator_error}"
    options = {**item.parameters["calibration_parameters"], **item.parameters["model_parameters"]}
    types = set(str(item.parameters["input_parameters"]["input_type_rt"]).split(";")) - {"featuremap"}
    text = ", ".join(f"{key} {value}" for key, value in options.items())
    return {
        "operators": operators_of(item.model),
        "departure": departure,
        "march": item.march.value,
        "options": f"{text}{', ' + ' and '.join(sorted(types)) if types else ''}",
    }


def _place(outcome: DrawOutcome, signature: Signature) -> str:
    row = outcome.row
    return "" if row is None or row.departure is None or signature.stage == "simulator" else row.departure.node


def _begin(plan: HuntPlan) -> None:
    known = _settings(plan.to)
    if known == plan.settings:  # without a last line that was cut off
        lines = [outcome.model_dump_json() + "\n" for outcome in _outcomes(plan.to)]
        write_atomically(plan.to / OUTCOMES, "".join(lines).encode())
    elif known is None:
        write_atomically(plan.to / SETTINGS, plan.settings.model_dump_json(indent=1).encode())
    else:
        marches = ",".join(march.value for march in known.marches)
        raise ConfigError(
            f"{plan.to}: holds a hunt with --seed {known.seed} --march {marches}"
            f"{' and a --network' if known.network else ''}; go on with these, or name another folder"
        )


def _settings(folder: Path) -> HuntSettings | None:
    path = folder / SETTINGS
    if not path.is_file():
        return None
    try:
        return HuntSettings.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, ValidationError) as error:
        raise ConfigError(f"{path}: is no hunt's; name another folder") from error


def _outcomes(folder: Path) -> tuple[DrawOutcome, ...]:
    """What was drawn before; a last line that was cut off is drawn again."""
    path = folder / OUTCOMES
    if not path.is_file():
        return ()
    lines = path.read_text(encoding="utf-8").splitlines()
    found = {}
    for number, line in enumerate(lines, 1):
        try:
            outcome = DrawOutcome.model_validate_json(line)
        except (ValueError, ValidationError) as error:
            if number == len(lines):
                break
            raise ConfigError(f"{path}: line {number} is no draw of a hunt; name another folder") from error
        found[outcome.index] = outcome
    return tuple(found[index] for index in sorted(found))


def _sorted_groups(
    groups: dict[Signature, DepartureGroup], outcomes: Sequence[DrawOutcome]
) -> tuple[DepartureGroup, ...]:
    found = counts(outcomes)
    return tuple(sorted(groups.values(), key=lambda group: (-found[group.signature], group.name)))
