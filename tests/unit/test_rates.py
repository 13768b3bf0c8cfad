"""Rates of senders and chats: what is over them is not taken, and told once a minute."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from clawbot import rates
from clawbot.intake import ChannelRules
from clawbot.messages import InboundMessage
from clawbot.ports import Store, Transaction
from clawbot.rates import WINDOW_MS, Over, RateLimits, Rates
from clawbot.shared_rates import Counted, SharedRates
from tests.contracts.sqlite_ground import SqliteGround, make_template
from tests.contracts.store import scenes
from tests.contracts.store.scenes import NOW_MS, accept, in_group, rules_of, said

OverRate = Callable[[Transaction, InboundMessage, int], Over | None]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("rates"))


@pytest.fixture
async def store(template: Path) -> AsyncIterator[Store]:
    made = SqliteGround(template, patience_s=10.0)
    yield await made.open("adapter")
    await made.close()


def took(counted: Rates, *messages: InboundMessage, at_ms: int = NOW_MS) -> list[str | None]:
    return [counted.take(message, at_ms) for message in messages]


def test_a_sender_may_write_so_much_within_a_minute_and_others_as_much() -> None:
    counted = Rates(RateLimits(per_sender=2))
    assert took(counted, said("m1"), said("m2"), said("m3")) == [None, None, "sender"]
    assert took(counted, said("m4", chat_id="C2"), said("m5", by="U2")) == ["sender", None]
    assert took(counted, said("m6"), at_ms=NOW_MS + WINDOW_MS - 1) == ["sender"]
    assert took(counted, said("m7"), at_ms=NOW_MS + WINDOW_MS) == [None]


def test_a_chat_has_a_rate_of_its_own() -> None:
    counted = Rates(RateLimits(per_chat=2))
    by_three = (said(f"m{number}", by=f"U{number}") for number in range(3))
    assert took(counted, *by_three) == [None, None, "chat"]
    assert took(counted, said("m4", chat_id="C2")) == [None]


def test_the_same_message_counts_once_and_what_is_over_counts_not_at_all() -> None:
    counted = Rates(RateLimits(per_sender=3, per_chat=2))
    assert took(counted, *(said("m1") for _ in range(5))) == [None] * 5
    assert took(counted, said("m2"), said("m3"), said("m1")) == [None, "chat", None]
    assert took(counted, said("m4", chat_id="C2"), said("m5", chat_id="C2")) == [None, "sender"]


def test_without_limits_all_is_taken_and_nothing_remembered_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rates, "MOST_COUNTED", 10)
    counted = Rates(RateLimits(per_sender=1))
    for number in range(100):
        assert took(counted, said(f"m{number}", by=f"U{number}", chat_id=f"C{number}")) == [None]
    assert len(counted._taken) == 10
    unlimited = Rates(RateLimits())
    assert took(unlimited, *(said(f"m{number}") for number in range(1000))) == [None] * 1000


def alone(per_sender: int = 0, per_chat: int = 0) -> OverRate:
    """The rates of the only process of a channel."""
    return SharedRates(RateLimits(per_sender=per_sender, per_chat=per_chat), lambda: 1).take


def of_two(per_sender: int = 0, per_chat: int = 0) -> list[ChannelRules]:
    """The rules of two processes of a channel."""
    limits = RateLimits(per_sender=per_sender, per_chat=per_chat)
    return [rules_of(over_rate=SharedRates(limits, lambda: 2).take) for _ in range(2)]


async def test_who_is_over_is_told_once_a_minute_and_nothing_is_lost_silently(
    store: Store,
) -> None:
    rules = rules_of(over_rate=alone(per_sender=1))
    assert (await accept(store, said("m1"), rules)).decision == "queued"
    for number in range(3):
        refused = await accept(store, said(f"much-{number}"), rules)
        assert (refused.decision, refused.reason) == ("refused", "rate_sender")
    assert (await accept(store, said("much-0"), rules)).is_duplicate
    assert await scenes.column(store, "inbox.state") == ["queued", *["refused"] * 3]
    (told,) = await scenes.column(store, "outbox.text")
    assert "I am busy" in str(told)
    later = NOW_MS + 2 * WINDOW_MS
    assert (await accept(store, said("later"), rules, later)).decision == "queued"
    await accept(store, said("多了", "多了"), rules, later)
    texts = [str(text) for text in await scenes.column(store, "outbox.text")]
    assert len(texts) == 2
    assert "我正忙" in texts[1]


async def test_commands_and_what_is_not_for_us_are_not_counted(store: Store) -> None:
    rules = rules_of(over_rate=alone(per_sender=1, per_chat=1))
    closed = rules_of(mention="required", over_rate=alone(per_sender=1, per_chat=1))
    for number in range(3):
        assert (await accept(store, said(f"c{number}", "/status"), rules)).decision == "command"
        overheard = await accept(store, in_group(f"o{number}"), closed)
        assert overheard.decision == "context"
    assert (await accept(store, said("m1"), rules)).decision == "queued"
    assert (await accept(store, said("stop", "/stop"), rules)).decision == "command"


# -- several processes of a channel --------------------------------------------------------------


async def decisions(store: Store, rules: list[ChannelRules], *said_by: str) -> list[str]:
    """What becomes of messages that go to the processes in turns, by these people, in one chat."""
    found = []
    for number, person in enumerate(said_by):
        message = said(f"{person}-{number}", by=person)
        accepted = await accept(store, message, rules[number % 2])
        found.append(accepted.reason or accepted.decision)
    return found


async def test_what_goes_to_several_processes_counts_against_one_rate(store: Store) -> None:
    rules = of_two(per_sender=3)
    assert await decisions(store, rules, *["U1"] * 5) == [*["queued"] * 3, *["rate_sender"] * 2]
    assert (await accept(store, said("other", by="U2"), rules[1])).decision == "queued"


async def test_what_is_over_the_chat_s_rate_takes_nothing_from_its_sender_s(store: Store) -> None:
    rules = of_two(per_sender=2, per_chat=3)
    many = await decisions(store, rules, "U1", "U2", "U3", "U4", "U4")
    assert many == [*["queued"] * 3, *["rate_chat"] * 2]
    for number in range(2):
        elsewhere = said(f"elsewhere-{number}", by="U4", chat_id="C2")
        assert (await accept(store, elsewhere, rules[number])).decision == "queued"


async def test_a_message_that_both_processes_get_counts_once(store: Store) -> None:
    rules = of_two(per_sender=2)
    for number in range(4):
        await accept(store, said("m1"), rules[number % 2])
    assert (await accept(store, said("m2"), rules[0])).decision == "queued"
    assert (await accept(store, said("m3"), rules[1])).decision == "refused"


async def test_together_they_take_as_much_again_a_while_later(store: Store) -> None:
    rules = of_two(per_sender=4)
    start = NOW_MS - NOW_MS % WINDOW_MS
    for number in range(5):
        accepted = await accept(store, said(f"first-{number}"), rules[number % 2], start)
        assert accepted.decision == ("queued" if number < 4 else "refused")
    # Half a minute into the next one, half of the four are a minute ago.
    half = start + WINDOW_MS * 3 // 2
    for number in range(3):
        accepted = await accept(store, said(f"half-{number}"), rules[number % 2], half)
        assert accepted.decision == ("queued" if number < 2 else "refused")
    assert (await accept(store, said("late"), rules[0], start + 9 * WINDOW_MS)).decision == "queued"


def test_a_host_whose_clock_is_behind_counts_into_the_others_minute() -> None:
    ahead = Counted.read(None, 10 * WINDOW_MS).plus(3)
    behind = Counted.read(ahead.text(), 9 * WINDOW_MS + 1)
    assert behind == ahead
    assert behind.within_window(9 * WINDOW_MS + 1) == 3
    assert Counted.read(ahead.text(), 11 * WINDOW_MS).before == 3
    assert Counted.read(ahead.text(), 12 * WINDOW_MS) == Counted(minute=12)
