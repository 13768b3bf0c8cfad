"""Pools: the turns of a session run where its files are."""

from __future__ import annotations

from pathlib import Path

from clawbot.session_key import SessionKey
from clawbot.store import inbox, session_admin
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import run_daemon, write_config
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator


async def test_a_worker_runs_the_turns_of_its_pools_alone(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator
) -> None:
    keys = slack_keys(slack, "socket", 0)
    path = write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=f"{keys}\npool: near-the-files",
        extra="pools: [elsewhere]",
    )
    alice = slack.create_user("alice")
    chat = slack.create_dm(alice)
    model.expect(Reply(text="pong"), when="ping")
    async with run_daemon(path, "worker", "slack") as daemon:
        await connect(daemon, slack, None)
        await slack.user_says(chat, alice, "ping")
        await daemon.until(inbox.count_by_state, lambda counts: counts == {"queued": 1})
        daemon.config = daemon.config.model_copy(update={"pools": ("near-the-files",)})
        await daemon.start("worker-2")
        await slack.wait_text("pong", channel=chat)
        # An admin may move a session, with its files, to another pool.
        key = SessionKey.of_chat("slack", chat)
        await daemon.store.write(lambda tx: session_admin.set_pool(tx, key, "elsewhere", 1))
        await daemon.stop("worker-2")
        model.expect(Reply(text="pang"), when="pong?")
        await slack.user_says(chat, alice, "pong?")
        await slack.wait_text("pang", channel=chat)
        await daemon.until_quiet()
