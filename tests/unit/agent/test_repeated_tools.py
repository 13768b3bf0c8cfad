"""Tools that repeat: the same schemas as a model makes of them, made once."""

from __future__ import annotations

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from clawbot.agent.repeated_tools import KEPT, RepeatedTools


class Chat(RepeatedTools, OpenAIChatModel):
    """A model of the library that knows tools again."""


PROVIDER = OpenAIProvider(base_url="http://127.0.0.1:9/v1", api_key="made-up")


def tool(number: int) -> ToolDefinition:
    """A tool with a schema of its own."""
    properties = {f"argument_{number}": {"type": "string", "minLength": number}}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolDefinition(name=f"tool_{number}", parameters_json_schema=schema)


def asked(*tools: ToolDefinition) -> ModelRequestParameters:
    """What a request asks for."""
    return ModelRequestParameters(function_tools=list(tools))


def test_known_tools_become_what_the_library_makes_of_them() -> None:
    plain, model = OpenAIChatModel("m", provider=PROVIDER), Chat("m", provider=PROVIDER)
    first, second = tool(1), tool(2)
    for tools in ([first], [first, second], [first], [second, first], [], [first, second]):
        made = model.customize_request_parameters(asked(*tools))
        assert made == plain.customize_request_parameters(asked(*tools))


def test_schemas_are_made_once() -> None:
    model, known = Chat("m", provider=PROVIDER), tool(1)
    once, again = (model.customize_request_parameters(asked(known)) for _ in range(2))
    assert once.function_tools[0] is again.function_tools[0]


def test_a_caller_may_change_its_list() -> None:
    model, known = Chat("m", provider=PROVIDER), tool(1)
    model.customize_request_parameters(asked(known)).function_tools.clear()
    model.customize_request_parameters(asked(known)).function_tools.clear()
    assert len(model.customize_request_parameters(asked(known)).function_tools) == 1


def test_only_so_many_sets_are_kept_and_none_is_taken_for_another() -> None:
    model = Chat("m", provider=PROVIDER)
    for number in range(3 * KEPT):  # most are freed at once, so that identities come again
        made = model.customize_request_parameters(asked(tool(number))).function_tools
        assert [one.name for one in made] == [f"tool_{number}"]
    assert len(model.__dict__["_known_tools"]) <= KEPT
