"""`clawbot explain`, with the Slack adapter as the example of a platform."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adapters.slack.adapter import open_adapter
from clawbot.clock import SystemClock
from clawbot.config import Config, load_config
from clawbot.errors import ConfigError, StartupError
from clawbot.explain import explain, split_headers
from clawbot.intake import Intake
from clawbot.parts import STORE_FILE, open_store
from clawbot.parts.adapter import rules_of
from tests.simulators.slack import SlackSimulator

ALL = "{dm: ['*'], groups: ['*'], senders: ['*']}"


@pytest.fixture
async def slack() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator(bot_name="clawbot") as simulator:
        simulator.create_user("alice", user_id="U1")
        simulator.create_channel("general", ["U1"], channel_id="C1")
        yield simulator


async def config_for(slack: SlackSimulator, folder: Path, *, allow: str = ALL) -> Config:
    path = folder / "clawbot.yaml"
    path.write_text(
        f"state_dir: {folder / 'state'}\n"
        "model: offline\n"
        "channels:\n"
        "  slack:\n"
        "    mode: http\n"
        f"    bot_token: {slack.bot_token}\n"
        f"    signing_secret: {slack.signing_secret}\n"
        f"    api_base_url: {slack.api_url}\n"
        f"    allow: {allow}\n"
    )
    return await asyncio.to_thread(load_config, path, environ={})


def event(text: str, **fields: Any) -> dict[str, Any]:
    ts = f"{int(time.time())}.000100"
    inner = {"type": "message", "channel": "C1", "channel_type": "channel", "user": "U1"}
    inner |= {"text": text, "ts": ts, **fields}
    return {"type": "event_callback", "event_id": "Ev1", "event": inner}


def lines_of(told: str) -> dict[str, str]:
    return {line[:10].strip(): line[11:] for line in told.splitlines() if line[:10].strip()}


async def test_a_message_that_is_answered_is_shown_as_the_model_reads_it(
    slack: SlackSimulator, tmp_path: Path
) -> None:
    body = json.dumps(event(f"<@{slack.bot.id}> ask <@U1>\nplease"))
    told = await explain(await config_for(slack, tmp_path), "slack", body)
    lines = lines_of(told)
    assert "account up" in lines["channel"] or "account connecting" in lines["channel"]
    assert (lines["decision"], lines["reason"]) == ("queued", "addressed")
    assert lines["session"].startswith("slack:C1/thread:")
    assert lines["text"] == "alice: ask @alice"
    assert f"\n{'':<11}please" in told
    assert "change" not in lines
    assert slack.sent("C1") == []


@pytest.mark.parametrize(
    ("allow", "fields", "reason", "change"),
    [
        (ALL, {}, "not_mentioned", "mention the bot, or set channels.slack.mention: never"),
        ("{}", {}, "group_not_allowed", "add 'C1' to channels.slack.allow.groups"),
        (
            "{groups: ['*']}",
            {},
            "sender_not_allowed",
            "add 'U1' to channels.slack.allow.senders",
        ),
        (
            "{}",
            {"channel": "D1", "channel_type": "im"},
            "dm_not_allowed",
            "add 'U1' to channels.slack.allow.dm",
        ),
    ],
)
async def test_a_refusal_says_what_to_change(
    slack: SlackSimulator,
    tmp_path: Path,
    allow: str,
    fields: dict[str, str],
    reason: str,
    change: str,
) -> None:
    body = json.dumps(event("hello", **fields))
    lines = lines_of(await explain(await config_for(slack, tmp_path, allow=allow), "slack", body))
    assert (lines["reason"], lines["change"]) == (reason, change)


async def test_what_is_no_message_is_told_by_its_reason(
    slack: SlackSimulator, tmp_path: Path
) -> None:
    config = await config_for(slack, tmp_path)
    edit = json.dumps(event("x", subtype="message_changed"))
    assert lines_of(await explain(config, "slack", edit))["reason"] == "edit"
    assert lines_of(await explain(config, "slack", "{"))["reason"] == "unreadable_body"


async def test_a_request_with_headers_is_checked_but_its_age_is_not(
    slack: SlackSimulator, tmp_path: Path
) -> None:
    body = (
        f"token=t&team_id={slack.workspace.team_id}&channel_id=C1&user_id=U1&user_name=alice&command=%2Fclaw"
        "&text=status&trigger_id=1.2"
    )
    signature = "v0=" + "0" * 64
    head = f"POST /slack/events HTTP/1.1\nX-Slack-Signature: {signature}\n"
    head += "X-Slack-Request-Timestamp: 1600000000\n"
    config = await config_for(slack, tmp_path)
    forged = lines_of(await explain(config, "slack", f"{head}\n{body}\n"))
    assert forged["reason"] == "bad_signature"
    unsigned = lines_of(await explain(config, "slack", f"Host: localhost\n\n{body}\n"))
    assert unsigned["decision"] == "command"


async def test_a_real_store_is_read_and_stays_as_it_is(
    slack: SlackSimulator, tmp_path: Path
) -> None:
    config = await config_for(slack, tmp_path)
    body = event(f"<@{slack.bot.id}> hello")
    adapter = open_adapter("slack", config.channels["slack"].adapter_config, SystemClock())  # type: ignore[arg-type]
    await adapter.check()
    message = adapter.read_payload({}, json.dumps(body).encode())
    store = await open_store(config)
    await Intake(store, SystemClock(), rules_of(config, "slack", adapter)).accept(message)  # type: ignore[arg-type]
    await adapter.close()
    await store.close()
    path = config.state_dir / STORE_FILE
    before = path.read_bytes()
    again = await explain(config, "slack", json.dumps(body), real_store=path)
    assert lines_of(again)["reason"] == "duplicate"
    reply = event("and now?", ts="1800000000.000100", thread_ts=body["event"]["ts"])
    told = lines_of(
        await explain(config, "slack", json.dumps(reply | {"event_id": "Ev2"}), real_store=path)
    )
    assert told["decision"] == "queued"
    assert told["session"] == f"slack:C1/thread:{body['event']['ts']}"
    assert path.read_bytes() == before
    with pytest.raises(StartupError, match=r"nothing\.db: cannot be read"):
        await explain(config, "slack", json.dumps(body), real_store=tmp_path / "nothing.db")


async def test_the_command_prints_the_decision_on_stdout_alone(
    slack: SlackSimulator, tmp_path: Path
) -> None:
    config = await config_for(slack, tmp_path)
    payload = tmp_path / "payload.json"
    await asyncio.to_thread(payload.write_text, json.dumps(event("hello")))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "clawbot", "explain", "slack", str(payload)),
        *("--config", str(tmp_path / "clawbot.yaml")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert (process.returncode, errors.decode()) == (0, "")
    assert lines_of(output.decode())["reason"] == "not_mentioned"
    assert not config.state_dir.exists()


async def test_an_unknown_channel_is_told_with_the_known_ones(
    slack: SlackSimulator, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="channels in the file: slack"):
        await explain(await config_for(slack, tmp_path), "slak", "{}")


async def test_a_platform_that_does_not_answer_is_said_to_be_out_of_reach(tmp_path: Path) -> None:
    async with SlackSimulator() as gone:
        config = await config_for(gone, tmp_path)
        body = json.dumps(event(f"<@{gone.bot.id}> hello"))
    lines = lines_of(await explain(config, "slack", body))
    assert "mentions of the bot are not recognised" in lines["channel"]
    assert lines["reason"] == "mentions_others"


@pytest.mark.parametrize(
    "payload", ['{"a": 1}\n', '{\n\n"a: b": 1}', "a=b&c=d", "<xml>\n\n<a>b: c</a></xml>"]
)
def test_a_file_without_headers_is_a_body(payload: str) -> None:
    assert split_headers(payload) == ({}, payload.strip().encode())


def test_headers_are_split_from_an_exact_body() -> None:
    payload = "POST / HTTP/1.1\r\nA-b: c: d\r\nE:f\r\n\r\n x \n\n"
    assert split_headers(payload) == ({"A-b": "c: d", "E": "f"}, b" x \n")
