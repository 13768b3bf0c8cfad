"""The gate: who is answered where. Default deny."""

from typing import Any

import pytest

from clawbot.access import GateFacts, judge
from clawbot.config import ChannelPolicy
from clawbot.config_sections import AllowLists
from clawbot.messages import ChatType, InboundMessage, Sender

ANYBODY = AllowLists(dm=("*",), groups=("*",), senders=("*",))
DM: dict[str, Any] = {"chat_type": ChatType.DM}
GROUP: dict[str, Any] = {"chat_type": ChatType.GROUP}
MENTION = {**GROUP, "mentioned": True}
BOT = {"sender": Sender(id="B1", is_bot=True)}
NOBODY = AllowLists()


def policy(allow: AllowLists = ANYBODY, **keys: Any) -> ChannelPolicy:
    return ChannelPolicy(**{"scope": "thread", "allow": allow, **keys})


def message(**changes: Any) -> InboundMessage:
    values: dict[str, Any] = {
        "channel": "desk",
        "identity": "m1",
        "chat_id": "C1",
        "chat_type": ChatType.DM,
        "sender": Sender(id="U1"),
        "text": "hello",
        "raw": "",
    }
    return InboundMessage(**values | changes)


def decide(
    changes: dict[str, Any], rules: ChannelPolicy, facts: GateFacts | None = None
) -> tuple[str, str]:
    verdict = judge(message(**changes), rules, facts or GateFacts())
    return verdict.action, verdict.reason


@pytest.mark.parametrize(
    ("changes", "allow", "expected"),
    [
        (DM, NOBODY, ("deny", "dm_not_allowed")),
        (DM, AllowLists(dm=("U2",)), ("deny", "dm_not_allowed")),
        (DM, AllowLists(groups=("*",), senders=("*",)), ("deny", "dm_not_allowed")),
        (DM, AllowLists(dm=("U1",)), ("admit", "")),
        (DM, AllowLists(dm=("*",)), ("admit", "")),
        (MENTION, NOBODY, ("deny", "group_not_allowed")),
        (MENTION, AllowLists(dm=("*",), senders=("*",)), ("deny", "group_not_allowed")),
        (MENTION, AllowLists(groups=("C2",), senders=("*",)), ("deny", "group_not_allowed")),
        (MENTION, AllowLists(groups=("C1",)), ("deny", "sender_not_allowed")),
        (MENTION, AllowLists(groups=("*",), senders=("U2",)), ("deny", "sender_not_allowed")),
        (MENTION, AllowLists(groups=("C1",), senders=("U1",)), ("admit", "")),
        (GROUP, NOBODY, ("deny", "group_not_allowed")),
    ],
)
def test_only_the_listed_may_talk(
    changes: dict[str, Any], allow: AllowLists, expected: tuple[str, str]
) -> None:
    assert decide(changes, policy(allow)) == expected


@pytest.mark.parametrize(
    ("changes", "rules", "facts", "expected"),
    [
        (DM, policy(), GateFacts(), "admit"),
        (MENTION, policy(), GateFacts(), "admit"),
        (GROUP, policy(), GateFacts(), "not_mentioned"),
        (GROUP, policy(mention="never"), GateFacts(), "admit"),
        (GROUP, policy(), GateFacts(follows_thread=True), "admit"),
        (GROUP, policy(follow_threads=False), GateFacts(follows_thread=True), "not_mentioned"),
        ({**GROUP, "mentions_others": True}, policy(), GateFacts(), "mentions_others"),
        (
            {**GROUP, "mentions_others": True},
            policy(),
            GateFacts(follows_thread=True),
            "mentions_others",
        ),
        ({**MENTION, "mentions_others": True}, policy(), GateFacts(), "admit"),
        ({**GROUP, "mentions_others": True}, policy(mention="never"), GateFacts(), "admit"),
        ({**DM, "mentions_others": True}, policy(), GateFacts(), "admit"),
    ],
)
def test_a_group_is_answered_when_it_means_us(
    changes: dict[str, Any], rules: ChannelPolicy, facts: GateFacts, expected: str
) -> None:
    action, reason = decide(changes, rules, facts)
    if expected == "admit":
        assert (action, reason) == ("admit", "")
    else:
        assert (action, reason) == ("overhear", expected)


@pytest.mark.parametrize(
    ("rules", "run", "expected"),
    [
        (policy(), 0, ("deny", "bot")),
        (policy(bots="allow"), 0, ("admit", "")),
        (policy(bots="allow", max_bot_turns=3), 2, ("admit", "")),
        (policy(bots="allow", max_bot_turns=3), 3, ("deny", "bot_loop")),
        (policy(AllowLists(groups=("*",), senders=("U1",)), bots="allow"), 0, None),
    ],
)
def test_bots_talk_only_where_they_may_and_not_for_ever(
    rules: ChannelPolicy, run: int, expected: tuple[str, str] | None
) -> None:
    found = decide({**MENTION, **BOT}, rules, GateFacts(bot_run=run))
    assert found == (expected or ("deny", "sender_not_allowed"))


def test_a_person_is_never_taken_for_a_loop() -> None:
    rules = policy(bots="allow", max_bot_turns=3)
    assert decide(MENTION, rules, GateFacts(bot_run=3)) == ("admit", "")


@pytest.mark.parametrize(("folded", "expected"), [(True, "admit"), (False, "deny")])
def test_an_admin_may_write_ids_in_any_case_where_the_platform_does(
    folded: bool, expected: str
) -> None:
    rules = policy(AllowLists(dm=("u1",)), case_insensitive_ids=folded)
    assert decide(DM, rules)[0] == expected


def test_a_star_inside_an_id_is_no_wildcard() -> None:
    assert decide(DM, policy(AllowLists(dm=("U*",))))[0] == "deny"
