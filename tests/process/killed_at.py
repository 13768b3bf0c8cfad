"""One of clawbot's commands, killed where a function is called or returns for the first time.

    python -m tests.process.killed_at MODULE:NAME before|after FOLDER -- COMMAND --config PATH

It dies when the folder holds an order to. See `tests.matrix.points`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from clawbot import cli
from tests.matrix.points import Executioner, KillPoint, Order, install

POINT = "given"


def order_death(folder: Path) -> None:
    """From now on the process dies where it was told."""
    Order(number=1, point=POINT, hit=1, act="die").write(folder)


def main(arguments: list[str]) -> None:
    """Wrap the function, then run the command."""
    target, moment, folder, _, *command = arguments
    point = KillPoint(name=POINT, role="adapter", target=target, is_before=moment == "before")
    executioner = Executioner()
    executioner.folder = Path(folder)
    install([point], executioner)
    sys.argv = ["clawbot", *command]
    cli.main()


if __name__ == "__main__":
    main(sys.argv[1:])
