"""What went wrong in other bots on Slack (`troubles.jsonl`), held against this one, kind by kind.

Left to tests of their own: bug-117, bug-119 (connections, `tests/adapters`); left to a later issue:
bug-131 (approval buttons).
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.slack.adapter import SlackAdapter
from clawbot.errors import StoreUnavailable
from clawbot.intake import Intake
from clawbot.splitting import split
from tests.adapters.slack_rig import opened, part
from tests.payloads import slack
from tests.payloads.rows import Row
from tests.payloads.runner import Result, run, run_row, store_template
from tests.simulators.slack import SlackSimulator
from tests.unit.slack.events import dm, mention, post, rich, section, slash, user, words

HERE = Path(__file__).parent
BOT = "U0BOT0001"
CTX = {
    "bot_user_id": BOT,
    "bot_id": "B0BOT0001",
    "users": {BOT: "clawbot", "U1": "alice", "U0BOB0002": "bob"},
}
ELSEWHERE = frozenset({"bug-117", "bug-119", "bug-131"})
HERE_TESTED = frozenset(
    {
        *("bug-014", "bug-015", "bug-022", "bug-024", "bug-034", "bug-056", "bug-064", "bug-066"),
        *("bug-074", "bug-075", "bug-076", "bug-077", "bug-083", "bug-084", "bug-085", "bug-091"),
        *("bug-092", "bug-100", "bug-102", "bug-103"),
    }
)


def row(payload: dict[str, Any], row_id: str = "row", **ctx: Any) -> Row:
    """A row of an event; each has ids of its own unless they are given."""
    return Row(id=row_id, transport="http", body=payload, ctx={**CTX, **ctx})


async def results_of(*rows: Row) -> list[Result]:
    return [result async for result in run(slack, {each.id: each for each in rows})]


async def result_of(payload: dict[str, Any]) -> Result:
    (result,) = await results_of(row(payload))
    assert result.error is None
    return result


async def conversation(*payloads: dict[str, Any]) -> list[Result]:
    """What becomes of payloads that come one after the other."""
    rows = [
        row(
            {**payload, "event_id": f"Ev{number}"},
            str(number),
            **({"after": str(number - 1)} if number else {}),
        )
        for number, payload in enumerate(payloads)
    ]
    return await results_of(*rows)


@pytest.fixture
async def workspace() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator() as simulator:
        simulator.create_channel("general", channel_id="C1")
        yield simulator


@pytest.fixture
async def adapter(workspace: SlackSimulator) -> AsyncIterator[SlackAdapter]:
    async with opened(workspace) as ready:
        yield ready


def test_every_slack_row_is_tested_here_or_named_as_left_out() -> None:
    lines = (HERE / "troubles.jsonl").read_text(encoding="utf-8").splitlines()
    given = {each["id"] for each in map(json.loads, lines) if each["platform"] == "slack"}
    assert given == HERE_TESTED | ELSEWHERE


# -- what the model reads --------------------------------------------------------------------------


async def test_names_reach_the_model_and_no_raw_ids() -> None:
    result = await result_of(mention(f"<@{BOT}> ask <@U0BOB0002>"))
    assert (result.deliver, result.text) == (True, "ask @bob")


async def test_the_three_entities_are_unescaped_once_and_after_tokens() -> None:
    assert (await result_of(dm("a &lt; b &amp;&amp; c"))).text == "a < b && c"
    assert (await result_of(dm("&amp;lt; &lt;@U1&gt; &quot;"))).text == "&lt; <@U1> &quot;"


async def test_a_quoted_command_is_read_and_never_run() -> None:
    quote = {
        "type": "rich_text_quote",
        "elements": [user(BOT), words(" /stop everything")],
    }
    own = section(user(BOT), words(" what does this do?"))
    result = await result_of(mention(f"<@{BOT}> what does this do?", blocks=rich(quote, own)))
    assert result.deliver
    assert result.reason != "command"
    assert result.text is not None
    assert "/stop everything" in result.text
    assert result.text.endswith("what does this do?")


async def test_forwarded_words_are_delivered_and_marked() -> None:
    shared = {"is_share": True, "author_name": "bob", "text": "the build is red"}
    blocks = rich(section(words("the build is red")))
    shared["message_blocks"] = [{"message": {"blocks": blocks}}]
    result = await result_of(dm("", attachments=[shared]))
    assert result.deliver
    assert result.text is not None
    assert "the build is red" in result.text
    assert "bob" in result.text
    assert "orward" in result.text


@pytest.mark.parametrize(
    ("subtype", "fields"),
    [
        ("file_share", {"files": [{"id": "F1", "name": "a.png", "mimetype": "image/png"}]}),
        ("thread_broadcast", {"thread_ts": "1700000000.000001"}),
        ("me_message", {}),
    ],
)
async def test_a_subtype_alone_drops_nothing_that_a_person_said(
    subtype: str, fields: dict[str, Any]
) -> None:
    result = await result_of(dm("look at this", subtype=subtype, **fields))
    assert result.deliver
    assert result.text is not None
    assert result.text.startswith("look at this")


# -- what is answered ------------------------------------------------------------------------------


async def test_a_retry_of_what_was_not_stored_is_not_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accept = Intake.accept

    async def fails_once(self: Intake, message: Any) -> Any:
        monkeypatch.setattr(Intake, "accept", accept)
        raise StoreUnavailable

    monkeypatch.setattr(Intake, "accept", fails_once)
    first = row(dm("do not lose me"), "first")
    retried = {"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_error"}
    again = row(dm("do not lose me"), "again", headers=retried, after="first")
    async with store_template() as template:
        result = await run_row(slack, {"first": first, "again": again}, again, template)
    assert (result.http, result.deliver, result.text) == (200, True, "do not lose me")


async def test_the_unfurl_of_the_bots_own_answer_is_not_answered() -> None:
    changed = {"user": BOT, "bot_id": "B0BOT0001", "text": "see https://example.com", "ts": "1.2"}
    payload = dm(None, user=None, subtype="message_changed", message=changed, hidden=True)  # type: ignore[arg-type]
    assert not (await result_of(payload)).deliver


@pytest.mark.parametrize("own", [{"user": BOT}, {"user": "U9", "bot_id": "B0BOT0001"}])
async def test_the_bot_does_not_answer_itself(own: dict[str, str]) -> None:
    result = await result_of(dm("hello", **own))
    assert (result.deliver, result.reason) == (False, "self")


# -- which session it belongs to -------------------------------------------------------------------


async def test_a_root_and_its_replies_are_one_session() -> None:
    ts = "1700000000.000100"
    results = await conversation(
        mention(f"<@{BOT}> begin", ts=ts),
        post("go on", ts="1700000001.000100", thread_ts=ts),
    )
    assert [result.deliver for result in results] == [True, True]
    assert {result.session_key for result in results} == {f"slack:C1/thread:{ts}"}


async def test_a_root_that_names_itself_as_its_thread_is_in_the_session_of_its_replies() -> None:
    ts = "1700000000.000100"
    results = await conversation(
        mention(f"<@{BOT}> begin", ts=ts, thread_ts=ts),
        mention(f"<@{BOT}> go on", ts="1700000001.000100", thread_ts=ts),
    )
    assert {result.session_key for result in results} == {f"slack:C1/thread:{ts}"}


async def test_messages_at_the_root_of_a_direct_chat_are_one_session() -> None:
    results = await conversation(
        dm("first", ts="1700000000.000100"), dm("second", ts="1700000001.000100")
    )
    assert [(result.deliver, result.session_key) for result in results] == [(True, "slack:D1")] * 2


@pytest.mark.parametrize("command", ["/resume slack:D2", "/summary"])
async def test_no_chat_command_opens_or_shows_the_conversation_of_somebody_else(
    command: str,
) -> None:
    typed = await result_of(mention(f"<@{BOT}> {command}"))
    assert (typed.deliver, typed.text) == (True, command)
    assert typed.reason != "command"
    assert typed.session_key == "slack:C1/thread:1700000000.000100"
    form = slash(command.removeprefix("/"), team_id=None)
    (by_slash,) = await results_of(row({k: v for k, v in form.items() if v is not None}))
    assert (by_slash.reason, by_slash.session_key) == ("queued", "slack:C1")


# -- how an answer is cut --------------------------------------------------------------------------

SQL = "\n".join(f"SELECT {number:03} AS column_{number:03}," for number in range(220))
TABLE = "\n".join(f"    | row {number:04} | {'x' * 40} |" for number in range(96))


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        pytest.param(f"Before.\n\n```python\n{TABLE}\n```\n\nAfter.", 4_000, id="bug-083"),
        pytest.param(f"```\n{TABLE[:5_443]}\n```", 4_000, id="bug-084"),
        pytest.param(f"```\n{'y' * 99}\n" + f"{'z' * 99}\n" * 19 + "```", 2_000, id="bug-085"),
        pytest.param(f"```sql\n{SQL}\n```", 2_900, id="bug-091"),
    ],
)
@pytest.mark.parametrize("by", ["characters", "measure"])
async def test_a_fence_that_is_cut_is_closed_and_opened_again(
    adapter: SlackAdapter, text: str, limit: int, by: str
) -> None:
    size: Callable[[str], int] = len if by == "characters" else adapter.measure
    parts = split(text, limit, size)
    assert len(parts) > 1
    opening = re.search(r"```\w*", text)
    assert opening is not None
    for each in parts:
        assert size(each) <= limit
        assert each.count("```") % 2 == 0
    for each in parts[1:]:
        assert each.startswith(f"{opening[0]}\n")
    lines = [line for each in parts for line in each.split("\n") if not line.startswith("```")]
    wanted = [line for line in text.split("\n") if not line.startswith("```")]
    assert [line for line in lines if line] == [line for line in wanted if line]


async def test_a_long_answer_is_cut_into_messages_that_slack_takes(
    workspace: SlackSimulator, adapter: SlackAdapter
) -> None:
    text = "\n\n".join(f"Paragraph {number}: {'word ' * 60}" for number in range(60))
    assert len(text) > 13_297
    for number, each in enumerate(split(text, adapter.limits.max_size, adapter.measure)):
        await adapter.send(part("C1", each, key=f"k{number}"))
    shown = "".join(message.shown for message in workspace.sent("C1"))
    assert "".join(shown.split()) == "".join(text.split())


# -- how an answer looks ---------------------------------------------------------------------------


async def text_of(workspace: SlackSimulator, adapter: SlackAdapter, markdown: str) -> str:
    """The mrkdwn of a sent answer."""
    await adapter.send(part("C1", markdown))
    return workspace.sent("C1")[-1].text


async def test_a_quote_stays_a_quote_and_its_signs_are_escaped(
    workspace: SlackSimulator, adapter: SlackAdapter
) -> None:
    text = await text_of(workspace, adapter, "> quoted <b> & more")
    assert text == "> quoted &lt;b&gt; &amp; more"


async def test_bold_words_within_chinese_text_are_bold(
    workspace: SlackSimulator, adapter: SlackAdapter
) -> None:
    text = await text_of(workspace, adapter, "这是**重点**内容")
    assert text.replace("\u200b", "|") == "这是|*重点*|内容"


async def test_code_keeps_plain_spaces(workspace: SlackSimulator, adapter: SlackAdapter) -> None:
    text = await text_of(workspace, adapter, "```\nif x:\n    return 1\n```")
    assert "\u00a0" not in text
    assert "\n    return 1\n" in text
