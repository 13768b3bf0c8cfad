"""The recorded Slack rows, through the command and by its parts."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.payloads import slack
from tests.payloads.rows import Row, load_rows
from tests.payloads.runner import Result, run, store_template
from tests.payloads.score import judge

HERE = Path(__file__).parent
ROWS = HERE / "slack.jsonl"
ROOT = HERE.parent.parent


async def results_of(*rows: Row) -> list[Result]:
    return [result async for result in run(slack, {row.id: row for row in rows})]


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
    code, lines = await output_of("-m", "tests.payloads", "slack", str(ROWS))
    assert code == 0
    await asyncio.to_thread(results.write_text, lines)
    code, verdict = await output_of(
        *(str(HERE / "score.py"), str(ROWS), str(results)),
        *("--choices", str(HERE / "choices.json")),
    )
    assert (code, verdict) == (0, "90 pass, 0 by policy, 0 fail of 90\n")


async def test_what_a_row_expects_changes_nothing(tmp_path: Path) -> None:
    given = json.loads(ROWS.read_text(encoding="utf-8").splitlines()[0])
    expectant = {**given, "expect": {"deliver": False, "text": "made up"}}
    lines = [expectant, {key: value for key, value in given.items() if key != "expect"}]
    found = []
    for number, line in enumerate(lines):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(json.dumps(line), encoding="utf-8")
        found += await results_of(*load_rows(path).values())
    assert replace(found[0], seconds=None) == replace(found[1], seconds=None)
    assert found[0].deliver


async def test_a_fault_that_the_adapter_makes_is_a_failed_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("made up")

    monkeypatch.setattr("adapters.slack.dispatch.parse_event", broken)
    (result,) = await results_of(row("slack-dm-nbsp"))
    assert result.error is not None
    assert "made up" in result.error
    assert judge(scored("slack-dm-nbsp"), as_json(result), {})[0] == "fail"


async def test_a_row_names_people_only_as_its_api_does() -> None:
    event = {"type": "message", "channel_type": "im", "channel": "D1", "user": "U0BOB0002"}
    event |= {"text": "ask <@U0ALICE01> and <@U0NOBODY9>", "ts": "1717000000.000100"}
    body = {"type": "event_callback", "event_id": "Ev1", "team_id": "T1", "event": event}
    given = row("slack-dm-nbsp")
    (result,) = await results_of(replace(given, body=body))
    assert result.text == "ask @alice and @U0NOBODY9"
    api = {"GET users.info?user=U0NOBODY9": {"ok": True, "user": {"name": "somebody"}}}
    (result,) = await results_of(replace(given, body=body, ctx={**given.ctx, "api": api}))
    assert result.text == "ask @alice and @somebody"


async def test_an_earlier_row_is_fed_first_and_a_missing_one_is_told() -> None:
    first, second = row("slack-pair-a1"), row("slack-pair-a2")
    results = await results_of(first, second)
    assert [(result.deliver, result.reason) for result in results] == [
        (True, "received"),
        (False, "duplicate"),
    ]
    (alone,) = await results_of(replace(second, ctx={**second.ctx, "after": "slack-pair-a0"}))
    assert alone.error == "not run: KeyError: 'slack-pair-a0'"


async def test_a_row_that_is_about_its_signature_is_not_signed_for_it() -> None:
    refused, signed = await results_of(row("slack-sig-missing"), row("slack-retry-unseen"))
    assert (refused.http, refused.deliver, refused.reason) == (401, False, "slack_bad_signature")
    assert (signed.http, signed.deliver) == (200, True)


async def test_a_command_counts_as_delivered_with_its_text() -> None:
    given = row("slack-dm-nbsp")
    assert isinstance(given.body, dict)
    event = {**given.body["event"], "text": "!status"}
    event.pop("blocks", None)
    (result,) = await results_of(replace(given, body={**given.body, "event": event}))
    assert (result.deliver, result.text, result.reason) == (True, "!status", "command")
    assert result.session_key == "slack:D0ALICE01"


async def test_the_store_of_a_row_is_empty_of_other_rows() -> None:
    async with store_template() as template:
        assert await asyncio.to_thread(template.exists)
    twice = row("slack-dm-nbsp")
    results = await results_of(twice, replace(twice, id="again"))
    assert [result.deliver for result in results] == [True, True]


def scored(row_id: str) -> dict[str, Any]:
    lines = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    return next(dict(line) for line in lines if line["id"] == row_id)


def as_json(result: Result) -> dict[str, Any]:
    return dict(json.loads(result.as_json()))
