"""One of clawbot's commands, killed where a function is called or returns for the first time.

    python -m tests.process.killed_at MODULE:NAME before|after FOLDER -- COMMAND --config PATH

It counts from when there is a file `armed` in the folder. See `tests.process.kill_points`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from clawbot import cli
from tests.process.kill_points import Killer, KillPoint, install


def main(arguments: list[str]) -> None:
    """Wrap the function, then run the command."""
    target, moment, folder, _, *command = arguments
    point = KillPoint(
        name="given", role="adapter", target=target, is_before=moment == "before", asks="tool"
    )
    install(point, Killer(1, Path(folder)))
    sys.argv = ["clawbot", *command]
    cli.main()


if __name__ == "__main__":
    main(sys.argv[1:])
