"""How to go on after a failure, by its class; nothing where the class is not known; pure.

What a failure says itself is the tool's; here is what the model may do about failures of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping

HINTS: Mapping[str, str] = {
    "missing": "Paths are relative to the work directory; glob finds a file by its name.",
    "outside": "Work with what is in the work directory, or ask the person to put the file there.",
    "ambiguous": "Read the place with read_file and quote it with the lines around it.",
    "stale": "The file may have changed: read the passage again before the next edit.",
    "timeout": "Do less at once; a command may have a longer timeout_s, or run in the background.",
    "arguments": "Correct the arguments and make the call again.",
    "no_command": "It may not be installed: look with command -v, or take another program.",
    "no_network": "Shell commands have no network here; web_fetch loads pages.",
    "killed": "It may have used too much memory: process the data in smaller pieces.",
    "unreachable": "Check the address; if it is right, tell the person that it cannot be reached.",
}


def hint(kind: str) -> str:
    """A line to add to a failure; "" for one of no known class."""
    return f"\n[{HINTS[kind]}]" if kind in HINTS else ""
