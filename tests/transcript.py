"""What stands in the simulated chats, as text for people who want to look at it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.simulators.slack import SlackSimulator


def transcript(slack: SlackSimulator, titles: Mapping[str, str]) -> Iterator[str]:
    """The lines of some chats, threads indented under the message that began them."""
    for chat, title in titles.items():
        yield f"\n── {title} {'─' * (76 - len(title))}"
        messages = slack.transcript(chat)
        for root in messages:
            if root.get("thread_ts", root["ts"]) != root["ts"]:
                continue
            yield from _shown(slack, root, "  ")
            for reply in messages:
                if reply.get("thread_ts") == root["ts"] != reply["ts"]:
                    yield from _shown(slack, reply, "  │     ")


def _shown(slack: SlackSimulator, message: Mapping[str, Any], indent: str) -> Iterator[str]:
    name = slack.workspace.users[message["user"]].name
    lines = _readable(slack, message["text"]).split("\n")
    lines += [f"[{button}]" for button in _buttons(message)]
    yield f"{indent}{name + ':':<9} {lines[0]}"
    yield from (f"{indent}{'':<9} {line}".rstrip() for line in lines[1:])


def _buttons(message: Mapping[str, Any]) -> Iterator[str]:
    for block in message.get("blocks") or ():
        if block["type"] == "actions":
            yield "] [".join(one["text"]["text"] for one in block["elements"])


def _readable(slack: SlackSimulator, text: str) -> str:
    users = slack.workspace.users
    text = re.sub(r"<@(\w+)>", lambda found: f"@{users[found[1]].name}", text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
