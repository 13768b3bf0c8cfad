"""The section `tools` of the YAML: what the agent can do, and within which bounds."""

from __future__ import annotations

from pydantic import Field

from clawbot.config_sections import Section


class ToolsConfig(Section):
    """What the agent can do."""

    at_once: int = Field(default=8, ge=1, le=64)
    """How many calls of one step may run side by side; those that change something never do."""
