"""What several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigPath = Annotated[
    Path,
    typer.Option(
        "--config",
        "-c",
        envvar="CLAWBOT_CONFIG",
        help="The YAML file.",
        show_default=True,
        resolve_path=True,
    ),
]

DEFAULT_CONFIG = Path("clawbot.yaml")
