"""The one table that names platforms: which adapter serves a channel type.

Everywhere else in clawbot a channel is a name and a type is opaque text.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelType:
    """Where an adapter's parts live. The config class is importable without the platform's SDK.

    config: "module:Class" of the pydantic model of the channel's YAML section.
    adapter: "module:function" that opens the adapter.
    default_scope: see `clawbot.router`.
    case_insensitive_ids: whether `u1` in the config means the platform's `U1`.
    """

    config: str
    adapter: str
    default_scope: str
    case_insensitive_ids: bool = False


CHANNEL_TYPES: dict[str, ChannelType] = {
    "slack": ChannelType(
        config="adapters.slack.config:SlackConfig",
        adapter="adapters.slack.adapter:open_adapter",
        default_scope="thread",
        case_insensitive_ids=True,
    ),
    "feishu": ChannelType(
        config="adapters.feishu.config:FeishuConfig",
        adapter="adapters.feishu.adapter:open_adapter",
        default_scope="thread",
    ),
    "wechat": ChannelType(
        config="adapters.wechat.config:WechatConfig",
        adapter="adapters.wechat.adapter:open_adapter",
        default_scope="chat",
    ),
    "wecom": ChannelType(
        config="adapters.wecom.config:WecomConfig",
        adapter="adapters.wecom.adapter:open_adapter",
        default_scope="chat",
        case_insensitive_ids=True,
    ),
    "wecom_bot": ChannelType(
        config="adapters.wecom.config:WecomBotConfig",
        adapter="adapters.wecom.bot_adapter:open_adapter",
        default_scope="chat",
        case_insensitive_ids=True,
    ),
}


def load(reference: str) -> Any:
    """Import what "module:name" names."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
