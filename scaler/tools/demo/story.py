"""Shows the demo's scenario on a screen while it is played in virtual time.

Must not: judge by itself; the scenario's expectations decide whether the result is right."""

from __future__ import annotations

from typing import TextIO

from scaler.sim.stories.play import play, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.timeline import Moment, Timeline
from scaler.tools.demo.screen import GLYPHS, Screen
from scaler.tools.simulate.present import verdict_lines
from scaler.tools.simulate.verdicts import judge


def tell(scenario: Scenario, *, seed: int, out: TextIO, live: bool, paced: bool) -> bool:
    """Play and show; True if every expectation holds. `live` = colours and a board, for
    terminals."""
    silence_logs()
    timeline = Timeline()
    screen = Screen(out, timeline, live=live, paced=paced)
    timeline.listener = screen.tell
    out.write(f"{screen.paint(scenario.title, '1')}\n{_legend(screen)}\n")
    play(scenario, seed=seed, timeline=timeline)
    screen.close()
    verdicts = judge(scenario, timeline)
    good = all(verdict.ok for verdict in verdicts)
    out.write("\n" + "\n".join(["What had to come true:", *verdict_lines(verdicts)]) + "\n")
    out.write(
        "\n" + screen.paint(_last_words(good, timeline.moments), "1;32" if good else "1;31") + "\n"
    )
    return good


def _legend(screen: Screen) -> str:
    words = {"empty": "held"}
    glyphs = []
    for condition, (glyph, code) in GLYPHS.items():
        glyphs.append(screen.paint(f"{glyph} {words.get(condition, condition)}", code))
    return "   ".join(glyphs)


def _last_words(good: bool, moments: list[Moment]) -> str:
    if not good:
        return "The service did not end where it should have."
    minutes = moments[-1].at / 60 if moments else 0.0
    return (
        f"{minutes:.0f} minutes of a cluster's life. Next: scaler demo --interactive, and kubectl; "
        "or scaler simulate with manifests of your own (docs/tutorial.md)."
    )
