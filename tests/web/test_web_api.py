"""The API on a real store: messages, transcripts, commands, stop, bad input."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clawbot.errors import StoreUnavailable
from clawbot.messages import ChatType, InboundMessage, Sender
from clawbot.session_key import SessionKey
from clawbot.store import inbox, outbox, sessions
from tests.web.ground import TOKEN, Caller, Script, Site, calling, kinds, running_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running_site(tmp_path) as site:
        yield site


@pytest.fixture
async def idle_site(tmp_path: Path) -> AsyncIterator[Site]:
    """A site whose messages wait, as no worker runs."""
    async with running_site(tmp_path, with_worker=False) as site:
        yield site


@pytest.fixture
async def caller(site: Site) -> AsyncIterator[Caller]:
    async with calling(site) as caller:
        yield caller


@pytest.fixture
async def idle_caller(idle_site: Site) -> AsyncIterator[Caller]:
    async with calling(idle_site) as caller:
        yield caller


def is_answered(page: Any) -> bool:
    return "assistant" in kinds(page) and page["running"] is None


# -- messages and transcripts ----------------------------------------------------------------------


async def test_a_message_is_answered_in_the_session_it_names(caller: Caller) -> None:
    await caller.say("hello", session="web:one", client_msg_id="m1")
    page = await caller.until(is_answered, "web:one")

    assert kinds(page) == ["user", "assistant"]
    user, assistant = page["items"]
    assert (user["text"], user["client_msg_id"], user["sender"]) == ("hello", "m1", "")
    assert assistant["html"] == "<p>You said: hello</p>\n"
    assert page["session"] | {"created_ms": 0, "active_ms": 0, "seq": 0} == {
        "key": "web:one",
        "title": "hello",
        "channel": "web",
        "state": "idle",
        "total": 1,
        "seq": 0,
        "created_ms": 0,
        "active_ms": 0,
    }
    assert await caller.transcript("web:two") == {
        "session": {
            "key": "web:two",
            "title": "New chat",
            "channel": "web",
            "state": "idle",
            "total": 0,
            "seq": 0,
            "created_ms": 0,
            "active_ms": 0,
        },
        "items": [],
        "older": None,
        "waiting": [],
        "running": None,
    }


async def test_a_message_sent_twice_is_one_message(caller: Caller) -> None:
    sent = await asyncio.gather(*(caller.say("hello", client_msg_id="same") for _ in range(5)))
    assert sorted(answer["is_duplicate"] for answer in sent) == [False, True, True, True, True]
    page = await caller.until(is_answered)
    assert kinds(page) == ["user", "assistant"]


async def test_a_message_waits_visibly_until_a_worker_takes_it(idle_caller: Caller) -> None:
    await idle_caller.say("hello", client_msg_id="m1")
    page = await idle_caller.transcript()
    assert [(one["text"], one["client_msg_id"]) for one in page["waiting"]] == [("hello", "m1")]
    assert page["items"] == []
    assert page["session"]["state"] == "waiting"
    assert page["session"]["title"] == "hello"


async def test_live_text_is_what_no_recorded_step_holds_yet(site: Site, caller: Caller) -> None:
    may_end = asyncio.Event()

    async def turn(script: Script) -> str:
        await script.says("First I look.")
        await script.uses("list_dir", '{"path": "."}', "README.md")
        script.shows("There is *one*")
        await may_end.wait()
        return "There is *one* file."

    site.runner.turns.append(turn)
    await caller.say("what is here?", client_msg_id="m1")
    page = await caller.until(lambda page: page["running"] and page["running"]["html"])
    assert kinds(page) == ["user", "assistant", "tool_call", "tool_result"]
    assert page["running"]["html"] == "<p>There is <em>one</em></p>\n"
    assert page["session"]["state"] == "running"
    call, result = page["items"][2:]
    assert (call["tool"], call["text"]) == ("list_dir", "path: .")
    assert (result["call_id"], result["text"]) == (call["call_id"], "README.md")

    may_end.set()
    page = await caller.until(lambda page: page["running"] is None)
    assert kinds(page)[-1] == "assistant"
    assert page["items"][-1]["text"] == "There is *one* file."


async def test_a_failed_turn_shows_its_error_id_and_nothing_of_the_exception(
    site: Site, caller: Caller
) -> None:
    async def turn(script: Script) -> str:
        raise RuntimeError("a secret detail")

    site.runner.turns.append(turn)
    await caller.say("hello", client_msg_id="m1")
    page = await caller.until(lambda page: "failed" in kinds(page))
    assert "(error " in page["items"][-1]["text"]
    assert "secret" not in page["items"][-1]["text"]
    assert page["session"]["total"] == 1


async def test_pages_of_a_transcript_meet_without_gap_or_double(site: Site, caller: Caller) -> None:
    async def turn(script: Script) -> str:
        for number in range(3):
            await script.uses("list_dir", f'{{"path": "{number}"}}', str(number))
        return "done"

    for number in range(6):
        site.runner.turns.append(turn)
        await caller.say(f"question {number}", client_msg_id=f"m{number}")
        await caller.say("!help", client_msg_id=f"h{number}")
        await caller.until(lambda page, n=number: kinds(page).count("assistant") == n + 1)
    whole = (await caller.transcript(limit="200"))["items"]
    assert len(whole) == 6 * 9

    pieces: list[Any] = []
    query = {"limit": "10"}
    while True:
        page = await caller.transcript(**query)
        first = page["items"][0]
        assert first["kind"] in {"user", "notice"}, "a page holds whole turns"
        pieces = page["items"] + pieces
        if page["older"] is None:
            break
        query["before"] = page["older"]
    assert pieces == whole


async def test_reading_on_gives_what_was_recorded_since(caller: Caller) -> None:
    await caller.say("one", client_msg_id="m1")
    first = await caller.until(is_answered)
    await caller.say("two", client_msg_id="m2")
    both = await caller.until(lambda page: kinds(page).count("assistant") == 2)

    since = await caller.transcript(after=str(first["session"]["seq"]))
    assert first["items"] + since["items"] == both["items"]
    assert since["older"] is None
    nothing = await caller.transcript(after=str(both["session"]["seq"]))
    assert nothing["items"] == []


async def test_reading_on_says_when_more_happened_than_a_page_holds(caller: Caller) -> None:
    for number in range(3):
        await caller.say("one", client_msg_id=f"m{number}")
        await caller.until(lambda page, n=number: kinds(page).count("assistant") == n + 1)
    page = await caller.transcript(after="0", limit="2")
    assert page["older"] is not None


async def test_the_list_is_in_order_of_activity_and_readable(caller: Caller) -> None:
    long = "Please plan the release of the next version, with everyone who works on it"
    await caller.say(long, session="team:C1/thread:1700.5", client_msg_id="m1")
    await caller.until(is_answered, "team:C1/thread:1700.5")
    await caller.say("!status", session="dir:%2Fsrv%2Fproject", client_msg_id="m2")
    listed = (await caller.get("/api/sessions"))["sessions"]
    assert [(one["title"], one["channel"], one["total"]) for one in listed] == [
        ("project", "terminal", 0),
        ("Please plan the release of the next version, with everyone…", "team", 1),
    ]


async def test_a_web_message_into_a_groups_session_is_answered_on_the_web_alone(
    site: Site, caller: Caller
) -> None:
    key = SessionKey.of_chat("team", "C1")
    from_chat = InboundMessage(
        channel="team",
        identity="C1:1",
        chat_id="C1",
        chat_type=ChatType.GROUP,
        sender=Sender(id="U1", name="Ada"),
        text="from the chat",
        raw="",
    )

    def put(tx: Any) -> None:
        numbers = sessions.take_numbers(tx, key, 1, 1, chat_type="group")
        inbox.put(tx, from_chat, state="queued", now_ms=1, session=key, seq=numbers.last_seq)
        inbox.mark_due(tx, str(key), 1)

    await site.store.write(put)
    await caller.until(is_answered, "team:C1")
    await caller.say("from the page", session="team:C1", client_msg_id="m1")
    page = await caller.until(lambda page: kinds(page).count("assistant") == 2, "team:C1")
    users = [item for item in page["items"] if item["kind"] == "user"]
    assert [(one["text"], one["sender"], one["client_msg_id"]) for one in users] == [
        ("from the chat", "Ada", None),
        ("from the page", "", "m1"),
    ]
    sent = await site.store.read(lambda tx: tx.conn.execute(outbox.outbox.select()).all())
    assert sent == []


# -- commands and stop -----------------------------------------------------------------------------


async def test_a_command_is_answered_at_once_and_stays_in_the_transcript(
    idle_caller: Caller,
) -> None:
    answer = await idle_caller.say("!help", client_msg_id="m1")
    assert answer["decision"] == "command"
    (notice,) = (await idle_caller.transcript())["items"]
    assert notice["kind"] == "notice"
    assert notice["asked"] == "!help"
    assert notice["client_msg_id"] == "m1"
    assert "<code>/stop</code>" in notice["html"]


async def test_a_new_beginning_is_a_line_and_what_was_said_before_stays(caller: Caller) -> None:
    await caller.say("before", client_msg_id="m1")
    await caller.until(is_answered)
    await caller.say("!new", client_msg_id="m2")
    await caller.say("after", client_msg_id="m3")
    page = await caller.until(lambda page: kinds(page).count("assistant") == 2)
    assert kinds(page) == ["user", "assistant", "new_epoch", "user", "assistant"]
    assert page["session"]["title"] == "after"


async def test_stop_ends_the_turn_and_shows_what_it_withdrew(site: Site, caller: Caller) -> None:
    async def turn(script: Script) -> str:
        script.shows("Working on")
        await asyncio.Event().wait()
        return "never"

    site.runner.turns.append(turn)
    await caller.say("a long task", client_msg_id="m1")
    await caller.until(lambda page: page["running"] and page["running"]["html"])
    await caller.say("and this", client_msg_id="m2")
    status, answer = await caller.post("/api/stop", {"session": "global"})
    assert (status, answer) == (200, {"had_turn": True, "withdrawn": 1})

    page = await caller.until(lambda page: page["running"] is None)
    shown = {item["kind"]: item for item in page["items"]}
    assert shown["assistant"]["text"] == "Working on"
    assert shown["withdrawn"]["text"] == "and this"
    assert shown["withdrawn"]["client_msg_id"] == "m2"
    assert shown["stopped"]["count"] == 1
    assert page["waiting"] == []


async def test_stopping_what_was_never_begun_makes_no_session(caller: Caller) -> None:
    status, answer = await caller.post("/api/stop", {"session": "web:none"})
    assert (status, answer["error"]) == (404, "no_session")
    assert (await caller.get("/api/sessions"))["sessions"] == []


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["nowhere", "web:", "web:a b", "task:1/task:2", "web:%61"])
async def test_an_unknown_kind_of_session_key_is_refused_with_the_reason(
    caller: Caller, key: str
) -> None:
    status, answer = await caller.get_status("/api/transcript", session=key)
    assert (status, answer["error"]) == (400, "bad_session")
    assert "session key" in answer["message"]
    body = {"session": key, "text": "hello", "client_msg_id": "m1"}
    assert (await caller.post("/api/messages", body))[0] == 400


@pytest.mark.parametrize(
    ("change", "status", "error"),
    [
        ({"text": " \n"}, 400, "empty"),
        ({"text": "ä" * 131_073}, 413, "too_large"),
        ({"text": "a" * 3_000_000}, 413, "too_large"),
        ({"text": 5}, 400, "bad_body"),
        ({"text": None}, 400, "bad_body"),
        ({"client_msg_id": ""}, 400, "bad_body"),
        ({"client_msg_id": "a b"}, 400, "bad_body"),
        ({"client_msg_id": "a" * 65}, 400, "bad_body"),
        ({"session": "web:" + "a" * 3_000}, 400, "bad_body"),
        ({"owner": True}, 400, "bad_body"),
    ],
)
async def test_a_bad_message_is_refused_and_nothing_is_stored(
    caller: Caller, change: dict[str, Any], status: int, error: str
) -> None:
    body = {"session": "global", "text": "hello", "client_msg_id": "m1"} | change
    got, answer = await caller.post("/api/messages", body)
    assert (got, answer["error"]) == (status, error)
    assert answer["message"]
    assert (await caller.get("/api/sessions"))["sessions"] == []


async def test_the_longest_message_is_taken_whole(idle_caller: Caller) -> None:
    text = "\u0001" * (256 * 1024)  # every character is escaped on the wire
    await idle_caller.say(text, client_msg_id="m1")
    assert (await idle_caller.transcript())["waiting"][0]["text"] == text


async def test_text_that_databases_refuse_is_taken_without_what_they_refuse(
    site: Site, idle_caller: Caller
) -> None:
    await idle_caller.say("a\x00b", client_msg_id="m1")
    assert (await idle_caller.transcript())["waiting"][0]["text"] == "a\ufffdb"


@pytest.mark.parametrize(
    "query",
    [
        {"before": "5"},
        {"before": "a.b"},
        {"before": "1.-2"},
        {"after": "-1"},
        {"after": "9" * 30},
        {"limit": "0"},
        {"limit": "100000"},
        {"before": "1.2", "after": "3"},
    ],
)
async def test_a_bad_query_is_refused(caller: Caller, query: dict[str, str]) -> None:
    status, answer = await caller.get_status("/api/transcript", **query)
    assert (status, answer["error"]) == (400, "bad_query")


async def test_only_json_is_taken(site: Site) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        async with http.post(f"{site.base}/api/messages", data={"text": "hello"}) as response:
            assert response.status == 415
        for body in (b"", b"{", b"[]", b'"text"', b"\xff"):
            async with http.post(
                f"{site.base}/api/messages",
                data=body,
                headers={"Content-Type": "application/json"},
            ) as response:
                assert response.status == 400
                assert (await response.json())["error"] == "bad_body"


async def test_unknown_addresses_and_methods_are_told_in_json(site: Site) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        async with http.get(f"{site.base}/api/nothing") as response:
            assert (response.status, (await response.json())["error"]) == (404, "not_found")
        async with http.delete(f"{site.base}/api/messages") as response:
            assert (response.status, (await response.json())["error"]) == (405, "bad_method")
            assert response.headers["Allow"] == "POST"


async def test_a_store_that_cannot_be_written_is_told_and_the_same_message_can_be_sent_again(
    site: Site, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_unit: object) -> None:
        raise StoreUnavailable("the disk is full")

    body = {"session": "global", "text": "hello", "client_msg_id": "m1"}
    with monkeypatch.context() as broken:
        broken.setattr(site.store, "write", refuse)
        status, answer = await caller.post("/api/messages", body)
    assert (status, answer["error"]) == (503, "store_unavailable")
    assert answer["error_id"] in answer["message"]
    assert "disk" not in answer["message"]
    assert not (await caller.say("hello", client_msg_id="m1"))["is_duplicate"]


async def test_a_fault_of_ours_is_told_by_an_id_alone(
    site: Site, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def break_down(_unit: object) -> None:
        raise ValueError("a secret detail")

    with monkeypatch.context() as broken:
        broken.setattr(site.store, "read", break_down)
        status, answer = await caller.get_status("/api/sessions")
    assert (status, answer["error"]) == (500, "crashed")
    assert answer["error_id"] in answer["message"]
    assert "secret" not in answer["message"]
