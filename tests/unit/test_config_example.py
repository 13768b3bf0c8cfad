"""The example shows every key, no other, with a comment and its default."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from clawbot.channels import CHANNEL_TYPES, load
from clawbot.config import Config, load_config
from clawbot.config_check import nested_section
from clawbot.config_sections import ChannelKeys
from clawbot.errors import ConfigError

FOLDER = Path(__file__).parents[2] / "config"


def example() -> dict[str, Any]:
    loaded = YAML(typ="safe", pure=True).load(FOLDER / "clawbot.example.yaml")
    assert isinstance(loaded, dict)
    return loaded


def value_of(variable: str) -> str:
    """A value that the key which reads the variable can take."""
    return "a" * 43 if variable.endswith("_AES_KEY") else f"value-of-{variable}"


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key that a model takes, dotted; entries of a map are written as *."""
    for name in model.model_fields:
        if (model, name) == (Config, "channels"):
            continue
        nested = nested_section(model, name)
        yield prefix + name
        if nested is not None:
            yield from keys_of(nested[0], f"{prefix}{name}.{'*.' if nested[1] else ''}")


def keys_in(data: dict[str, Any], maps: set[str], prefix: str = "") -> Iterator[str]:
    for name, value in data.items():
        yield prefix + name
        if isinstance(value, dict):
            entries = value.values() if prefix + name in maps else [value]
            star = "*." if prefix + name in maps else ""
            for entry in (each for each in entries if isinstance(each, dict)):
                yield from keys_in(entry, maps, f"{prefix}{name}.{star}")


def test_the_example_holds_every_key_and_no_other() -> None:
    data = example()
    channels = data.pop("channels")
    maps = {"providers", "schedules", "budgets.prices", "mcp"}
    assert set(keys_in(data, maps)) == set(keys_of(Config))
    assert {entry["type"] for entry in channels.values()} == set(CHANNEL_TYPES)
    for entry in channels.values():
        adapter_model = load(CHANNEL_TYPES[entry["type"]].config)
        wanted = set(keys_of(ChannelKeys)) | set(keys_of(adapter_model))
        assert set(keys_in(entry, {"menu"})) == wanted


def test_the_example_is_valid_once_its_variables_are_set() -> None:
    text = (FOLDER / "clawbot.example.yaml").read_text()
    active = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    names = re.findall(r"\$\{([A-Z_]+)\}", active)
    assert names
    environ = {name: value_of(name) for name in names}
    load_config(FOLDER / "clawbot.example.yaml", environ=environ)
    with pytest.raises(ConfigError) as raised:
        load_config(FOLDER / "clawbot.example.yaml", environ={})
    for name in names:
        assert any(f"missing; set {name}" in problem for problem in raised.value.problems)


def test_every_key_of_the_example_stands_under_a_comment() -> None:
    commented = False
    for line in (FOLDER / "clawbot.example.yaml").read_text().splitlines():
        stripped = line.strip()
        if not stripped:
            commented = False
        elif stripped.startswith("#"):
            commented = True
        else:
            assert commented or line.startswith(" "), line


def test_the_example_shows_the_defaults() -> None:
    config = example()
    for section in ("turns", "tools", "project", "limits", "retention", "log", "web"):
        fields = Config.model_fields[section].default
        for name, value in config[section].items():
            if (section, name) == ("tools", "rules"):
                continue  # a rule is shown, and there is none by default
            default = getattr(fields, name)
            assert value == (list(default) if isinstance(default, tuple) else default) or (
                isinstance(value, str) and value.endswith(":-}")
            ), name


def test_no_adapter_takes_a_key_that_all_channels_have() -> None:
    for name, channel_type in CHANNEL_TYPES.items():
        own = set(load(channel_type.config).model_fields)
        assert not own & set(ChannelKeys.model_fields), name
