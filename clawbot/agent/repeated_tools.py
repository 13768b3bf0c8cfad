"""Tools are the same in nearly every request: what a model makes of them is made once."""

from __future__ import annotations

from dataclasses import replace

from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

KEPT = 64
"""Sets of tools that a model remembers; channels and people have theirs."""


class RepeatedTools(Model):
    """For a model of the library: copying, checking and walking all schemas took each request a
    tenth of a worker's time. It knows tools again by identity, and nobody changes one.
    """

    def customize_request_parameters(
        self, model_request_parameters: ModelRequestParameters
    ) -> ModelRequestParameters:
        """The library's hook, with the answer it gave for the same tools."""
        asked = model_request_parameters.function_tools
        known: dict[tuple[int, ...], tuple[list[ToolDefinition], list[ToolDefinition]]]
        known = self.__dict__.setdefault("_known_tools", {})
        key = tuple(map(id, asked))
        if key not in known:
            customized = super().customize_request_parameters(model_request_parameters)
            if len(known) >= KEPT:
                del known[next(iter(known))]
            # The first of the two keeps the identities from being given to others.
            known[key] = ([*asked], [*customized.function_tools])
            return customized
        others = replace(model_request_parameters, function_tools=[])
        return replace(
            super().customize_request_parameters(others), function_tools=[*known[key][1]]
        )
