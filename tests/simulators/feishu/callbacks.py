"""What Feishu takes as the answer to a callback: a toast, a card in the place of the pressed one.

Anything else shows an error to the person who pressed.
"""

import json

from .api_error import ApiError
from .cards import parse_card
from .tenant import Json, Tenant

TOASTS = frozenset({"info", "success", "warning", "error"})


def problem_of(answer: object) -> str:
    """Why an answer is none, "" if it is one."""
    if not isinstance(answer, dict):
        return "not an object"
    if unknown := answer.keys() - {"toast", "card"}:
        return f"unknown {sorted(unknown)}"
    toast, card = answer.get("toast"), answer.get("card")
    if toast is not None and not _is_toast(toast):
        return "bad toast"
    if card is not None:
        if not isinstance(card, dict) or card.get("type") != "raw":
            return "bad card"
        try:
            parse_card(_dump(card.get("data")))
        except ApiError as error:
            return str(error)
    return ""


def show(tenant: Tenant, message_id: str, answer: Json) -> None:
    """Put the card of an answer in the place of the pressed one."""
    if "card" in answer:
        tenant.revise(tenant.find_message(message_id), _dump(answer["card"]["data"]))


def _is_toast(toast: object) -> bool:
    if not isinstance(toast, dict) or toast.get("type", "info") not in TOASTS:
        return False
    content = toast.get("content")
    return isinstance(content, str) and bool(content)


def _dump(card: object) -> str:
    return json.dumps(card, ensure_ascii=False)
