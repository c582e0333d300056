"""What nobody has verified against the original or a board: one table, which help and the site's first page show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unverified:
    """Something that follows public documents and was compared with nothing.

    Attributes:
        subject: what it is.
        why: what is not known of it.
        instead: what to do before a decision rests on it.
        commands: whose help says so; an option may stand behind the command.
    """

    subject: str
    why: str
    instead: str
    commands: tuple[str, ...]


UNVERIFIED: tuple[Unverified, ...] = (
    Unverified(
        "The dialect of hb_compile and the marches nash-e, nash-m and nash-p (S100)",
        "parameters follow public documents; rules, integers and latency are those of bayes-e; nothing was measured",
        "convert with your own hb_compile and compare the outputs of both",
        ("hb_compile",),
    ),
    Unverified(
        "Files .bin, .hbm and .bc",
        "they have ptqlab's own formats under these names: no board and no tool of the original reads them",
        "build the file for the board with the original toolchain (ptqlab ship)",
        (
            "hb_mapper makertbin",
            "hb_compile",
            "hb_pack",
            "hb_perf",
            "hb_model_info",
            "hb_model_modifier",
            "hb_verifier",
            "hb_model_verifier",
            "hrt_model_exec",
        ),
    ),
    Unverified(
        "Commands that run on a board or ask one",
        "they run on ptqlab's simulator; options follow public documents and were tried on no board",
        "run the original command on the board, with the file that the original toolchain built",
        ("hb_verifier --board-ip", "hb_model_verifier --arm-board-ip", "hrt_model_exec"),
    ),
)


def note_of(*commands: str) -> str | None:
    """What the end of a command's help says; None where all of it was verified.

    Args:
        commands: its name, such as ``hrt_model_exec``, and with that of a subcommand, ``hrt_model_exec infer``.
    """
    found = [each for each in UNVERIFIED if any(name.partition(" --")[0] in commands for name in each.commands)]
    if not found:
        return None
    return "Not verified: " + " ".join(f"{each.subject}: {each.why}; {each.instead}." for each in found)


def table() -> str:
    """The table of the site's first page, Markdown."""
    rows = [
        f"| {each.subject} | {each.why} | {each.instead} | {', '.join(f'`{name}`' for name in each.commands)} |"
        for each in UNVERIFIED
    ]
    return "\n".join(["| not verified | what is not known | instead | commands |", "|---|---|---|---|", *rows])
