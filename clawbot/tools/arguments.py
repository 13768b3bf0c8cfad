"""What a model is told of a tool's arguments: their schema, and what was wrong with them; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

_MAX_PROBLEMS = 5


def schema_of(args: type[BaseModel]) -> dict[str, object]:
    """The JSON schema of a tool's arguments, without the titles that repeat its names."""
    schema = _untitled(args.model_json_schema())
    schema.setdefault("properties", {})
    return schema


def _untitled(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":  # a field may itself be called title
            kept[key] = {name: _untitled(field) for name, field in value.items()}
        elif key == "title" and isinstance(value, str):
            continue
        else:
            kept[key] = _untitled_value(value)
    return kept


def _untitled_value(value: Any) -> Any:
    if isinstance(value, dict):
        return _untitled(value)
    return [_untitled_value(item) for item in value] if isinstance(value, list) else value


def describe_schema(args: type[BaseModel]) -> str:
    """The arguments in one line: `path (string, required), limit (integer)`."""
    schema: dict[str, Any] = args.model_json_schema()
    required = schema.get("required", ())
    fields = [
        f"{name} ({_kind(field)}{', required' if name in required else ''})"
        for name, field in schema.get("properties", {}).items()
    ]
    return ", ".join(fields) or "no arguments"


def _kind(field: Mapping[str, Any]) -> str:
    kinds = [option.get("type", "") for option in field.get("anyOf", ())]
    return str(field.get("type") or " or ".join(filter(None, kinds)) or "any")


def describe_problems(error: ValidationError) -> str:
    """What is wrong with which argument, in a few words each."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    told = [
        f"{'.'.join(map(str, detail['loc'])) or 'arguments'}: {detail['msg']}"
        for detail in details[:_MAX_PROBLEMS]
    ]
    if len(details) > _MAX_PROBLEMS:
        told.append(f"and {len(details) - _MAX_PROBLEMS} more")
    return "; ".join(told)
