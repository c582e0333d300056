"""What a change of axis costs a reader of a sweep's page: main-thread CPU time of clicks in headless Chromium.

``python -m benchmarks.page_clicks 1500`` draws the page of a sweep of :mod:`benchmarks.synthetic` with that many trials
and presses the buttons of two plots: accuracy against latency, and the effects of settings, these once where the screen
shows them and once where it does not. The medians of eight clicks, in ms, are until the next frame is drawn.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.synthetic import outcome_of, suite_of
from harness.gates.choice import choose
from harness.gates.judgement import References
from harness.report.page import render
from harness.trials.trial import TrialStore
from tests.browser import Browser, opened
from tests.harness import finished
from tests.harness.report.judged import judged

CLICKS = 8
PLACES = (("scatter", "scatter"), ("effects, seen", "effects"), ("effects, not seen", "trials"))
"""What is measured, and what the screen shows meanwhile."""


def page_of(trials: int, folder: Path) -> Path:
    """The page of a sweep with so many trials."""
    suite, specs = suite_of(trials)
    store, results = TrialStore(folder / "trials"), []
    for spec in specs:
        outcome = outcome_of(spec)
        store.put(outcome)
        results.append(outcome.result)
    sweep = finished.sweep(results, suite=suite, choices=choose(results, store))
    page = folder / "report.html"
    page.write_text(render(judged(sweep, References(), folder), folder), encoding="utf-8")
    return page


def cpu_ms(browser: Browser) -> float:
    """Milliseconds of CPU time that the page's main thread has spent."""
    return 1000 * browser.metrics()["TaskDuration"]


def click_ms(browser: Browser, plot: str) -> float:
    """Median over clicks on the buttons of ``plot``."""
    found = []
    for click in range(CLICKS):
        before = cpu_ms(browser)
        browser.run(f"document.getElementById('{plot}').previousElementSibling.children[{(click + 1) % 3}].click()")
        browser.run(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))"
        )
        found.append(cpu_ms(browser) - before)
    return statistics.median(found)


def main() -> None:
    """Print a line per plot."""
    with TemporaryDirectory() as folder, opened(page_of(int(sys.argv[1]), Path(folder))) as browser:
        for what, shown in PLACES:
            browser.run(f"document.getElementById('{shown}').scrollIntoView()")
            browser.run("new Promise(done => setTimeout(done, 500))")
            print(f"{what:20} {click_ms(browser, what.split(',')[0]):6.1f} ms")


if __name__ == "__main__":
    sys.exit(main())
