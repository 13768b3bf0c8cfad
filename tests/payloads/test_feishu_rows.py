"""The recorded Feishu rows, through the command and by their parts."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.payloads import feishu
from tests.payloads.rows import Row, load_rows
from tests.payloads.runner import Result, run

HERE = Path(__file__).parent
ROWS = HERE / "feishu.jsonl"
ROOT = HERE.parent.parent


async def results_of(*rows: Row) -> list[Result]:
    return [result async for result in run(feishu, {row.id: row for row in rows})]


def row(row_id: str, **ctx: Any) -> Row:
    found = load_rows(ROWS)[row_id]
    return replace(found, ctx={**found.ctx, **ctx})


async def output_of(*command: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_no_row_fails(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    code, lines = await output_of("-m", "tests.payloads", "feishu", str(ROWS))
    assert code == 0
    await asyncio.to_thread(results.write_text, lines)
    code, verdict = await output_of(
        *(str(HERE / "score.py"), str(ROWS), str(results)),
        *("--choices", str(HERE / "choices.json")),
    )
    assert (code, verdict) == (0, "91 pass, 1 by policy, 0 fail of 92\n")


async def test_a_quoted_message_stands_before_the_words_with_its_authors_name() -> None:
    given = row("feishu-quote-group", users={"ou_bob_0002": "Bob"})
    (result,) = await results_of(given)
    assert result.text == "> quoted message of Bob:\n> the deploy failed at step 3\n\nwhy?"
    (result,) = await results_of(row("feishu-quote-group", api={}))
    assert result.text == "why?"


async def test_a_starter_in_a_group_of_topics_opens_a_session_of_its_own() -> None:
    given = row("feishu-group-mention-middle")
    chat = {"code": 0, "data": {"chat_mode": "topic"}}
    api = {"GET /open-apis/im/v1/chats/oc_group_0001": chat}
    (result,) = await results_of(replace(given, ctx={**given.ctx, "api": api}))
    assert (result.thread, result.session_key) == (None, "feishu:oc_group_0001/thread:om_000030")
    (result,) = await results_of(given)
    assert result.session_key == "feishu:oc_group_0001"


async def test_a_message_said_twice_by_a_person_is_no_repush() -> None:
    again = row("feishu-dup-fresh-2")
    (result,) = await results_of(replace(again, ctx={**again.ctx, "after": []}))
    assert result.deliver
    assert isinstance(again.body, dict)
    event = again.body["event"]
    later = {**event, "message": {**event["message"], "create_time": "1717009999999"}}
    first = load_rows(ROWS)["feishu-dup-fresh-1"]
    results = await results_of(first, replace(again, body={**again.body, "event": later}))
    assert [result.deliver for result in results] == [True, True]
