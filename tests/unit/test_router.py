"""The router: from a message to its session, its place and the route of its answer."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from clawbot.messages import ChatType, InboundMessage, Place, ReplyRoute, Sender
from clawbot.router import Route, route

TS = "1700000000.000100"


@dataclass
class Known:
    """What the router looks up."""

    aliases: dict[tuple[str, str, str], str] = field(default_factory=dict)
    active: dict[Place, str] = field(default_factory=dict)

    def alias_of(self, channel: str, chat_id: str, thread: str) -> str | None:
        return self.aliases.get((channel, chat_id, thread))

    def active_session(self, place: Place) -> str | None:
        return self.active.get(place)


def find(scope: str = "thread", known: Known | None = None, **changes: Any) -> Route:
    values: dict[str, Any] = {
        "channel": "slack",
        "identity": "m1",
        "chat_id": "C1",
        "chat_type": ChatType.GROUP,
        "sender": Sender(id="U1"),
        "text": "hello",
        "raw": "",
    }
    return route(InboundMessage(**values | changes), scope, known or Known(), can_edit=True)


DM: dict[str, Any] = {"chat_id": "D1", "chat_type": ChatType.DM}


@pytest.mark.parametrize(
    ("scope", "changes", "session", "place_thread"),
    [
        ("thread", DM, "slack:D1", None),
        ("thread", {**DM, "thread": TS}, f"slack:D1/thread:{TS}", TS),
        ("thread", {"opens_thread": TS}, f"slack:C1/thread:{TS}", TS),
        ("thread", {"thread": TS}, f"slack:C1/thread:{TS}", TS),
        ("thread", {"thread": TS, "opens_thread": "9.9"}, f"slack:C1/thread:{TS}", TS),
        ("thread", {}, "slack:C1", None),
        ("chat", DM, "slack:D1", None),
        ("chat", {"opens_thread": TS}, "slack:C1", None),
        ("chat", {"thread": TS}, "slack:C1", TS),
        ("user", DM, "slack:D1", None),
        ("user", {"opens_thread": TS}, "slack:C1/user:U1", None),
        ("user", {"thread": TS}, "slack:C1/user:U1", TS),
    ],
    ids=[
        "DM root",
        "DM or assistant thread",
        "channel root",
        "reply",
        "broadcast",
        "slash words",
        "scope chat, DM",
        "scope chat, root",
        "scope chat, reply",
        "scope user, DM",
        "scope user, root",
        "scope user, reply",
    ],
)
def test_a_message_belongs_where_its_scope_says(
    scope: str, changes: dict[str, Any], session: str, place_thread: str | None
) -> None:
    way = find(scope, **changes)
    chat_id = changes.get("chat_id", "C1")
    assert str(way.session) == session
    assert way.place == Place(channel="slack", chat_id=chat_id, thread=place_thread)
    assert way.reply == ReplyRoute(chat_id=chat_id, thread=place_thread, can_edit=True)


def test_a_thread_that_was_learned_late_belongs_to_its_session() -> None:
    known = Known(aliases={("slack", "C1", TS): "slack:C1"})
    way = find("thread", known, thread=TS)
    assert (str(way.session), way.reply.thread) == ("slack:C1", TS)
    elsewhere = find("thread", known, thread=TS, chat_id="C2")
    assert str(elsewhere.session) == f"slack:C2/thread:{TS}"


def test_the_session_that_people_chose_at_a_place_goes_before_its_own() -> None:
    place = Place(channel="slack", chat_id="D1")
    known = Known(active={place: "slack:D1/task:7"})
    assert str(find("thread", known, **DM).session) == "slack:D1/task:7"
    assert str(find("thread", known, **DM, thread=TS).session) == f"slack:D1/thread:{TS}"


def test_people_in_one_group_do_not_share_a_session_of_scope_user() -> None:
    keys = {str(find("user", sender=Sender(id=one)).session) for one in ("U1", "u1", "U1/x")}
    assert keys == {"slack:C1/user:U1", "slack:C1/user:u1", "slack:C1/user:U1%2Fx"}


def test_the_route_keeps_what_the_adapter_needs_to_answer() -> None:
    way = find("thread", thread=TS, reply_to="m0", reply_token="token")
    assert way.reply == ReplyRoute(
        chat_id="C1", thread=TS, reply_to="m0", token="token", can_edit=True
    )
    assert way.reply.lane == ("C1", TS)
