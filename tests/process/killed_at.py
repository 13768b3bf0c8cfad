"""One of clawbot's commands, killed where a function is called or returns for the first time.

    python -m tests.process.killed_at MODULE:NAME before|after -- adapter wechat --config PATH

See `tests.process.kill_points`.
"""

from __future__ import annotations

import sys

from clawbot import cli
from tests.process.kill_points import Killer, KillPoint, install


def main(arguments: list[str]) -> None:
    """Wrap the function, then run the command."""
    target, moment, _, *command = arguments
    point = KillPoint(
        name="given", role="adapter", target=target, is_before=moment == "before", asks="tool"
    )
    install(point, Killer(1, None))
    sys.argv = ["clawbot", *command]
    cli.main()


if __name__ == "__main__":
    main(sys.argv[1:])
