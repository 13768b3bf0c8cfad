"""Taking messages in, on a real store: every decision, and what each leaves behind."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clawbot.config import Models
from clawbot.config_sections import AllowLists
from clawbot.errors import StoreUnavailable, TurnStopped
from clawbot.intake import ChannelRules, admit_for_session
from clawbot.messages import Accepted, Attachment, InboundMessage, Sender
from clawbot.ports import Store
from clawbot.store import events, processes, schema, topics
from tests.contracts.sqlite_ground import SqliteGround, make_template
from tests.contracts.store import scenes
from tests.contracts.store.scenes import (
    MENTION_RULES,
    NOW_MS,
    RULES,
    accept,
    in_group,
    rules_of,
    said,
)

DAY_MS = 86_400_000
CLOSED = rules_of(allow=AllowLists())


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("intake"))


@pytest.fixture
async def ground(template: Path) -> AsyncIterator[SqliteGround]:
    made = SqliteGround(template, patience_s=10.0)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def store(ground: SqliteGround) -> Store:
    return await ground.open("adapter")


async def answers(store: Store) -> list[str]:
    """What people are told, oldest first."""
    return [str(text) for text in await scenes.column(store, "outbox.text")]


async def states(store: Store) -> list[str]:
    return [str(state) for state in await scenes.column(store, "inbox.state")]


# Decisions


async def test_a_plain_message_is_queued_with_its_frozen_route(store: Store) -> None:
    ear = store.listen([topics.TURNS])
    message = in_group("m1", reply_to="m0", reply_token="token")
    accepted = await accept(store, message)
    assert (accepted.inbox_id, accepted.decision) == (1, "queued")
    assert accepted.session_key == "desk:C1/thread:t-m1"
    assert await scenes.column(store, "inbox.route") == [
        {
            "chat_id": "C1",
            "thread": "t-m1",
            "reply_to": "m0",
            "token": "token",
            "can_edit": True,
            "max_file_bytes": None,
        }
    ]
    assert await scenes.column(store, "sessions.key") == ["desk:C1/thread:t-m1"]
    assert await ear.wait(5)
    assert await answers(store) == []


async def test_what_no_database_takes_is_replaced_and_the_message_taken(store: Store) -> None:
    message = said(
        "m1",
        "half \ud83d of a pair, a NUL \x00",
        raw='{"text": "\ud83d"}',
        sender=Sender(id="U1", name="A\ud83d"),
        attachments=(Attachment(kind="file", name="b\x00.txt", source="f1"),),
    )
    assert (await accept(store, message)).decision == "queued"
    assert await scenes.column(store, "inbox.text") == ["half \ufffd of a pair, a NUL \ufffd"]
    assert await scenes.column(store, "inbox.sender_name") == ["A\ufffd"]


async def test_an_incomplete_message_waits_for_its_enrichment(store: Store) -> None:
    ear = store.listen([topics.enrich_topic("desk")])
    assert (await accept(store, said("m1", is_incomplete=True))).decision == "received"
    assert await scenes.column(store, "inbox.enrich_by_ms") == [NOW_MS + RULES.enrich_ms]
    assert await ear.wait(5)


async def test_an_incomplete_message_is_taken_as_it_is_where_nobody_completes_it(
    store: Store,
) -> None:
    rules = rules_of(can_enrich=False)
    assert (await accept(store, said("m1", is_incomplete=True), rules)).decision == "queued"


@pytest.mark.parametrize(
    ("sent_at_ms", "late"),
    [(None, False), (NOW_MS - 1000, False), (NOW_MS - 3_600_001, True), (NOW_MS + 9000, False)],
)
async def test_an_old_message_is_marked_and_not_refused(
    store: Store, sent_at_ms: int | None, late: bool
) -> None:
    assert (await accept(store, said("m1", sent_at_ms=sent_at_ms))).decision == "queued"
    assert await scenes.column(store, "inbox.is_late") == [late]


async def test_an_unaddressed_message_becomes_context_of_its_place(store: Store) -> None:
    accepted = await accept(store, in_group("m1"), MENTION_RULES)
    assert (accepted.decision, accepted.reason) == ("context", "not_mentioned")
    assert await scenes.column(store, "inbox.session_key") == [None]
    assert await scenes.column(store, "sessions.key") == []


@pytest.mark.parametrize(
    ("message", "rules"),
    [
        (in_group("m1", "   "), MENTION_RULES),
        (in_group("m1"), rules_of(mention="required", context_rows=0)),
    ],
    ids=["empty text", "no context kept"],
)
async def test_an_unaddressed_message_without_use_leaves_no_row(
    store: Store, message: InboundMessage, rules: ChannelRules
) -> None:
    accepted = await accept(store, message, rules)
    assert (accepted.inbox_id, accepted.decision) == (None, "ignored")
    assert await states(store) == []


async def test_a_group_that_is_not_listed_stays_silent(store: Store) -> None:
    accepted = await accept(store, in_group("m1"), CLOSED)
    assert (accepted.inbox_id, accepted.decision) == (None, "refused")
    assert accepted.reason == "group_not_allowed"
    mentioned = await accept(store, in_group("m2", "secret", mentioned=True), CLOSED)
    assert (mentioned.decision, mentioned.reason) == ("refused", "group_not_allowed")
    assert await states(store) == ["refused"]
    assert await scenes.column(store, "inbox.text") == [""]  # nothing of what was said is kept
    assert await answers(store) == []


async def test_a_write_that_fails_is_not_accepted(store: Store, ground: SqliteGround) -> None:
    await accept(store, said("m0"))
    with ground.unwritable(), pytest.raises(StoreUnavailable):
        await accept(store, said("m1"))
    assert (await accept(store, said("m1"))).is_duplicate is False


# Copies


@pytest.mark.parametrize("mention_first", [True, False])
async def test_both_events_of_a_mention_are_one_message(store: Store, mention_first: bool) -> None:
    plain = in_group("m1", transport_ids=("e1",))
    mention = in_group("m1", transport_ids=("e2",), mentioned=True)
    pair = (mention, plain) if mention_first else (plain, mention)
    accepted = [await accept(store, one, MENTION_RULES) for one in pair]
    assert {one.inbox_id for one in accepted} == {1}
    assert accepted[1].is_duplicate is mention_first
    assert await states(store) == ["queued"]
    again = [await accept(store, one, MENTION_RULES) for one in pair]
    assert all(one.is_duplicate for one in again)
    assert await states(store) == ["queued"]


async def test_a_context_message_that_comes_again_stays_context(store: Store) -> None:
    await accept(store, in_group("m1"), MENTION_RULES)
    again = await accept(store, in_group("m1"), MENTION_RULES)
    assert (again.decision, again.is_duplicate) == ("context", True)


async def test_a_stop_that_comes_again_does_not_stop_a_newer_turn(store: Store) -> None:
    await scenes.begin(store, "old")
    stop = said("stop", "/stop")
    first = await accept(store, stop)
    (stopped,) = await scenes.column(store, "turns.id")
    turn = await scenes.claim(store, "nobody")
    assert turn == []  # the old turn's worker has not ended it yet
    await store.write(lambda tx: processes.release(tx, "worker"))
    (old,) = await scenes.claim(store)
    assert old.turn_id == stopped
    await scenes.finish(store, old, None, "stopped")
    newer = await scenes.begin(store, "newer")
    again = await accept(store, stop)
    assert (again.inbox_id, again.is_duplicate) == (first.inbox_id, True)
    await scenes.record(store, newer)
    await scenes.finish(store, newer)
    assert await scenes.column(store, "turns.state", schema.turns.c.id == newer.turn_id) == ["done"]


# A person who may not talk here


async def test_a_denied_person_is_told_once_a_day_which_key_to_change(store: Store) -> None:
    for number, at_ms in enumerate((NOW_MS, NOW_MS + 1000, NOW_MS + DAY_MS)):
        accepted = await accept(store, said(f"m{number}", "let me in"), CLOSED, at_ms)
        assert (accepted.decision, accepted.reason) == ("refused", "dm_not_allowed")
    told = await answers(store)
    assert len(told) == 2
    assert "`U1`" in told[0]
    assert "channels.desk.allow.dm" in told[0]
    assert await states(store) == ["refused"] * 3
    await accept(store, said("m4", "让我进来", by="U2"), CLOSED)
    assert "`U2`" in (await answers(store))[-1]
    assert "管理员" in (await answers(store))[-1]


async def test_a_denied_bot_is_told_nothing(store: Store) -> None:
    bot = Sender(id="B1", is_bot=True)
    assert (await accept(store, said("m1", sender=bot), CLOSED)).decision == "refused"
    assert await answers(store) == []


async def test_a_denied_person_commands_nothing(store: Store) -> None:
    turn = await scenes.begin(store, "work")
    accepted = await accept(store, said("stop", "/stop", by="U2"), CLOSED)
    assert accepted.decision == "refused"
    await scenes.record(store, turn)


# Threads


async def test_a_thread_with_a_session_needs_no_mention(store: Store) -> None:
    await accept(store, in_group("root", mentioned=True), MENTION_RULES)
    reply = in_group("m2", thread="t-root")
    assert (await accept(store, reply, MENTION_RULES)).decision == "queued"
    to_others = in_group("m3", thread="t-root", mentions_others=True)
    assert (await accept(store, to_others, MENTION_RULES)).decision == "context"
    elsewhere = in_group("m4", thread="t-other")
    assert (await accept(store, elsewhere, MENTION_RULES)).decision == "context"
    unfollowed = rules_of(mention="required", follow_threads=False)
    assert (await accept(store, in_group("m5", thread="t-root"), unfollowed)).decision == "context"


async def test_in_scope_chat_only_the_thread_we_answer_in_needs_no_mention(store: Store) -> None:
    rules = rules_of(scope="chat", mention="required")
    await accept(store, in_group("m1", thread="t1", mentioned=True), rules)
    assert (await accept(store, in_group("m2", thread="t1"), rules)).decision == "queued"
    assert (await accept(store, in_group("m3", thread="t2"), rules)).decision == "context"
    assert (await accept(store, in_group("m4"), rules)).decision == "context"


async def test_a_command_in_somebody_s_thread_does_not_make_it_ours(store: Store) -> None:
    asked = in_group("m1", thread="t1", mentioned=True, text="/status", command_text="/status")
    assert (await accept(store, asked, MENTION_RULES)).decision == "command"
    assert (await accept(store, in_group("m2", thread="t1"), MENTION_RULES)).decision == "context"


async def test_a_thread_learned_late_is_joined_to_the_session_of_its_root(store: Store) -> None:
    await accept(store, in_group("root"))
    reply = in_group("m2", thread="late", thread_root="t-root")
    assert (await accept(store, reply)).session_key == "desk:C1/thread:t-root"
    unrooted = in_group("m3", thread="late")
    assert (await accept(store, unrooted)).session_key == "desk:C1/thread:t-root"
    stranger = in_group("m4", thread="other", thread_root="unknown")
    assert (await accept(store, stranger)).session_key == "desk:C1/thread:other"
    elsewhere = in_group("m5", thread="late", chat_id="C2")
    assert (await accept(store, elsewhere)).session_key == "desk:C2/thread:late"


async def test_bots_that_talk_to_each_other_are_ended(store: Store) -> None:
    rules = rules_of(bots="allow", max_bot_turns=2)
    bot: dict[str, Any] = {"sender": Sender(id="B1", is_bot=True), "thread": "t1"}
    found = [(await accept(store, in_group(f"b{n}", **bot), rules)).reason for n in range(3)]
    assert found == ["", "", "bot_loop"]
    await accept(store, in_group("person", thread="t1"), rules)
    assert (await accept(store, in_group("b4", **bot), rules)).decision == "queued"


async def test_a_bot_is_counted_in_all_threads_of_a_chat_until_a_person_writes(
    store: Store,
) -> None:
    rules = rules_of(bots="allow", max_bot_turns=2)

    async def reason(identity: str, bot: str = "B1", **place: Any) -> str:
        sender = Sender(id=bot, is_bot=True)
        return (await accept(store, in_group(identity, sender=sender, **place), rules)).reason

    assert [await reason("b1"), await reason("b2", thread="t1")] == ["", ""]
    assert await reason("b3", thread="t2") == "bot_loop"
    assert await reason("b4") == "bot_loop"
    assert await reason("b5", thread="t3", chat_id="C2") == ""
    assert await reason("b6", "B2", thread="t4") == "", "another bot in a thread of its own"
    await accept(store, in_group("person", thread="t9"), rules)
    assert await reason("b7", thread="t5") == ""


# Commands


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/help", "`/stop`"),
        ("!帮助", "`/stop`"),
        ("/status", "Idle. Model: scripted."),
        ("！状态", "空闲。模型：scripted。"),
        ("stop", "Nothing is running here."),
        ("停止", "当前没有正在运行的任务。"),
        ("/new", "A new conversation begins."),
        ("／新对话", "已开始新对话。"),
    ],
)
async def test_a_command_is_answered_at_once_past_the_lane(
    store: Store, text: str, expected: str
) -> None:
    accepted = await accept(store, said("m1", text))
    assert accepted.decision == "command"
    assert await states(store) == ["done"]
    assert await scenes.column(store, "outbox.skips_lane") == [True]
    (told,) = await answers(store)
    assert expected in told
    assert await scenes.claim(store) == []


async def test_a_command_is_read_where_a_command_may_stand_and_nowhere_else(store: Store) -> None:
    quoted = said("m1", "> /stop", command_text=None)
    assert (await accept(store, quoted)).decision == "queued"
    mention = said("m2", "@bot /status", command_text="/status")
    assert (await accept(store, mention)).decision == "command"


async def test_the_status_tells_of_work_and_of_what_waits(store: Store) -> None:
    await scenes.begin(store, "work")
    await accept(store, said("m2"))
    await accept(store, said("m3", is_incomplete=True))
    await accept(store, said("status", "/status"), RULES, NOW_MS + 65_000)
    assert await answers(store) == ["Working for 65 s; 2 message(s) wait. Model: scripted."]


async def test_a_stop_ends_the_turn_and_withdraws_what_waits(store: Store) -> None:
    turn = await scenes.begin(store, "work")
    await accept(store, said("stop1", "/stop"))
    await scenes.finish(store, turn, None, "stopped")
    await accept(store, said("m2"))
    await accept(store, said("stop2", "停止"))
    assert await answers(store) == ["Stopped.", "已停止，并撤回了 1 条等待中的消息。"]
    assert set(await states(store)) == {"done"}


async def test_new_words_begin_the_new_conversation(store: Store) -> None:
    old = await scenes.begin(store, "old")
    await accept(store, said("waiting"))
    accepted = await accept(store, said("new", "/new tell me a joke"))
    assert accepted.decision == "queued"
    await scenes.finish(store, old, None, "stopped")
    (turn,) = await scenes.claim(store)
    assert ([row.text for row in turn.rows], turn.epoch) == (["tell me a joke"], old.epoch + 1)
    assert await answers(store) == []  # the answer to the words is the answer


async def test_a_command_at_the_root_of_a_group_speaks_for_the_chat(store: Store) -> None:
    await accept(store, in_group("work", "work"))
    (turn,) = await scenes.claim(store)
    await accept(store, in_group("elsewhere", "work", chat_id="C2"))
    for name in ("stop", "status"):
        await accept(store, in_group(name, f"/{name}"))
    told = (await answers(store))[-2:]
    assert all("desk:C1/thread:t-work" in text and "C2" not in text for text in told)
    await scenes.record(store, turn)  # nothing was stopped
    await accept(store, in_group("in thread", "/stop", thread="t-work"))
    assert (await answers(store))[-1] == "Stopped."
    with pytest.raises(TurnStopped):
        await scenes.record(store, turn)


async def test_a_stop_at_the_root_of_an_idle_group_finds_nothing(store: Store) -> None:
    await accept(store, in_group("stop", "/stop"))
    assert await answers(store) == ["Nothing is running here."]


# Messages that name their session themselves


async def said_on_the_page(store: Store, identity: str, text: str) -> Accepted:
    message = said(identity, text, channel="web", chat_id="page")
    return await store.write(
        lambda tx: admit_for_session(tx, message, scenes.KEY, Models(usual="scripted"), NOW_MS)
    )


async def test_a_page_writes_into_the_session_it_shows_and_nothing_is_sent(store: Store) -> None:
    accepted = await said_on_the_page(store, "w1", "hello")
    assert (accepted.decision, accepted.session_key) == ("queued", str(scenes.KEY))
    assert (await said_on_the_page(store, "w1", "hello")).is_duplicate
    (turn,) = await scenes.claim(store)
    assert turn.route is None
    await scenes.draft(store, turn, "half")
    await scenes.finish(store, turn, "an answer")
    assert await answers(store) == []
    page = await store.read(lambda tx: events.since(tx, {}))
    assert [one.data.get("text") for one in page.events if one.kind == "reply"] == ["an answer"]


async def test_a_page_reads_the_answer_to_a_command_in_its_session(store: Store) -> None:
    turn = await scenes.begin(store, "work")
    accepted = await said_on_the_page(store, "w1", "/stop")
    assert accepted.decision == "command"
    page = await store.read(lambda tx: events.since(tx, {}))
    assert [one.data["text"] for one in page.events if one.kind == "notice"] == ["Stopped."]
    assert await answers(store) == []
    with pytest.raises(TurnStopped):
        await scenes.record(store, turn)


async def test_new_words_on_a_page_begin_the_new_conversation(store: Store) -> None:
    accepted = await said_on_the_page(store, "w1", "/new a joke")
    assert accepted.decision == "queued"
    (turn,) = await scenes.claim(store)
    assert ([row.text for row in turn.rows], turn.epoch) == (["a joke"], 1)


# The log


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []

    class Log:
        def info(self, event: str, **values: Any) -> None:
            lines.append({"event": event, **values})

    monkeypatch.setattr("clawbot.intake.log", Log())
    return lines


async def test_each_decision_is_logged_with_its_reason_and_without_its_text(
    store: Store, logged: list[dict[str, Any]]
) -> None:
    await accept(store, in_group("m1", "a secret"), MENTION_RULES)
    await accept(store, said("m2", "a secret"), CLOSED)
    await accept(store, in_group("m3", "a secret"), CLOSED)
    found = [(line["decision"], line["reason"]) for line in logged]
    assert found == [
        ("context", "not_mentioned"),
        ("refused", "dm_not_allowed"),
        ("refused", "group_not_allowed"),
    ]
    assert "secret" not in repr(logged)
