"""What the methods of the card kit do."""

import json

from .api_error import ApiError
from .cards import check_text, find_element, parse_card
from .methods import Request
from .tenant import Card, Json, Tenant


def create_card(tenant: Tenant, request: Request) -> Json:
    """POST cards."""
    if request.body.get("type") != "card_json":
        raise ApiError(300301, "unknown card type")
    card = Card(id=tenant.new_id("AAq"), content=parse_card(str(request.body.get("data"))))
    card.was_streaming = card.streaming
    tenant.cards[card.id] = card
    return {"data": {"card_id": card.id}}


def convert_id(tenant: Tenant, request: Request) -> Json:
    """POST cards/id_convert."""
    message = tenant.messages.get(str(request.body.get("message_id")))
    if message is None or not message.card_id:
        raise ApiError(300302, "no card")
    return {"data": {"card_id": message.card_id}}


def update_card(tenant: Tenant, request: Request) -> Json:
    """PUT cards/:id."""
    card = _changed(tenant, request)
    card.content = parse_card(str(request.body.get("card", {}).get("data")))
    _revise(tenant, card)
    return {"data": {}}


def card_settings(tenant: Tenant, request: Request) -> Json:
    """PATCH cards/:id/settings."""
    card = _changed(tenant, request)
    settings = json.loads(str(request.body.get("settings")))
    card.content.setdefault("config", {}).update(settings.get("config", {}))
    return {"data": {}}


def element_content(tenant: Tenant, request: Request) -> Json:
    """PUT cards/:id/elements/:id/content: only while streaming, with a greater sequence."""
    card = _card(tenant, request)
    element = find_element(card.content, request.ids[1])
    if not card.streaming:
        raise ApiError(300309)
    text = str(request.body.get("content"))
    check_text(text)
    _changed(tenant, request)
    element["content"] = text
    _revise(tenant, card)
    return {"data": {}}


def _card(tenant: Tenant, request: Request) -> Card:
    card = tenant.cards.get(request.ids[0])
    if card is None:
        raise ApiError(300302, "no card")
    return card


def _changed(tenant: Tenant, request: Request) -> Card:
    card, sequence = _card(tenant, request), request.body.get("sequence")
    if not isinstance(sequence, int) or not 0 < sequence < 2**31:
        raise ApiError(300305, "invalid sequence")
    if card.sequences and sequence <= card.sequences[-1]:
        raise ApiError(300317)
    card.sequences.append(sequence)
    return card


def _revise(tenant: Tenant, card: Card) -> None:
    if card.message_id:
        message = tenant.messages[card.message_id]
        message.edits += 1
        message.revisions.append(json.dumps(card.content, ensure_ascii=False))
