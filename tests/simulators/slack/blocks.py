"""Text and Block Kit: limits, the rich text of typed messages, readable text.

Only the limits that a client can hit by accident; not a Block Kit validator.
"""

import re

from .workspace import Json

TEXT_LIMIT = 40_000  # chat.postMessage cuts there and warns
UPDATE_TEXT_LIMIT = 4_000  # chat.update refuses there (msg_too_long), unlike chat.postMessage
MARKDOWN_LIMIT = 12_000  # markdown_text and markdown blocks
BLOCKS_LIMIT = 50
BLOCKS_CHARS_LIMIT = 13_200  # measured by users, slackapi/bolt-js issue 2509
SECTION_LIMIT = 3_000
HEADER_LIMIT = 150

_TOKEN = re.compile(
    r"<(?:@[UWB][A-Z0-9]+(?:\|[^<>]*)?|#[CG][A-Z0-9]+(?:\|[^<>]*)?|![a-z]\S*?"
    r"|(?:https?://|mailto:|tel:)[^<>\s]+(?:\|[^<>]*)?)>"
)
_USER = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^<>]*)?>")


def wire_text(typed: str) -> str:
    """What Slack's client makes of typed text: & < > escaped, tokens such as <@U1> kept."""
    wire: list[str] = []
    end = 0
    for token in _TOKEN.finditer(typed):
        wire += [_escape(typed[end : token.start()]), token.group()]
        end = token.end()
    return "".join([*wire, _escape(typed[end:])])


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def rich_text(typed: str, block_id: str) -> list[Json]:
    """The rich_text block that the client sends along with typed text."""
    elements: list[Json] = []
    end = 0
    for mention in _USER.finditer(typed):
        if before := typed[end : mention.start()]:
            elements.append({"type": "text", "text": before})
        elements.append({"type": "user", "user_id": mention.group(1)})
        end = mention.end()
    if rest := typed[end:]:
        elements.append({"type": "text", "text": rest})
    section = {"type": "rich_text_section", "elements": elements}
    return [{"type": "rich_text", "block_id": block_id, "elements": [section]}]


def mentions(text: str, user_id: str) -> bool:
    """Whether the wire text names this user."""
    return any(found.group(1) == user_id for found in _USER.finditer(text))


def readable(blocks: list[Json]) -> str:
    """What a person reads in blocks, one line a block; empty for blocks without text."""
    lines: list[str] = []
    for block in blocks:
        text = block.get("text")
        if isinstance(text, dict):
            text = text.get("text")
        if isinstance(text, str):
            lines.append(text)
        lines += [str(each.get("text", "")) for each in block.get("fields", [])]
        if block.get("type") == "context":
            parts = (str(each.get("text", "")) for each in block.get("elements", []))
            lines.append(" ".join(parts))
    return "\n".join(line for line in lines if line)


def fault_in_blocks(blocks: object) -> str | None:
    """The error name Slack answers for these blocks, if any."""
    if not isinstance(blocks, list) or not all(
        isinstance(block, dict) and isinstance(block.get("type"), str) for block in blocks
    ):
        return "invalid_blocks_format"
    if len(blocks) > BLOCKS_LIMIT or any(_bad(block) for block in blocks):
        return "invalid_blocks"
    if _chars(blocks) > BLOCKS_CHARS_LIMIT:
        return "msg_blocks_too_long"
    return None


def _chars(value: object) -> int:
    """Characters in all strings; keys and JSON escapes do not count."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_chars(each) for each in value.values())
    return sum(_chars(each) for each in value) if isinstance(value, list) else 0


def _bad(block: Json) -> bool:
    text = block.get("text")
    length = len(text.get("text", "")) if isinstance(text, dict) else len(text or "")
    match block["type"]:
        case "section":
            return length > SECTION_LIMIT or not (length or block.get("fields"))
        case "header":
            return length > HEADER_LIMIT or not length
        case "markdown":
            return length > MARKDOWN_LIMIT
        case "actions" | "context":
            return not 0 < len(block.get("elements", [])) <= 25  # context holds 10, actions 25
        case _:
            return False
