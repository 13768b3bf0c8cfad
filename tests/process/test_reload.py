"""A config that changes while clawbot runs, in real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from clawbot.supervisor import EXIT_BAD_CONFIG
from tests.flow.conftest import model, slack_keys
from tests.flow.daemon import write_config
from tests.flow.test_approvals import asked
from tests.process.commands import Command, clawbot
from tests.process.test_troubles import events
from tests.process.waiting import eventually
from tests.simulators.model import ModelSimulator, Reply, ToolCall
from tests.simulators.slack import SlackSimulator

__all__ = ["model"]

RULES = "tools: {rules: [{do: deny, tool: bash, arguments: ^rm, reason: nothing is deleted}]}"


def rewrite(path: Path, *changes: tuple[str, str]) -> None:
    """Put another file in the config's place."""
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


async def noticed(command: Command, event: str, count: int, *processes: str) -> None:
    """Wait until each of these processes has said so for so many times."""

    def told(process: str) -> int:
        return sum(
            one["event"] == event and one["process"].startswith(process) for one in events(command)
        )

    await eventually(lambda: all(told(process) >= count for process in processes))


def status_of(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "clawbot", "status", "--config", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def uses(model: ModelSimulator, when: str, command: str) -> None:
    call = ToolCall(name="bash", arguments={"command": command})
    model.expect(Reply(tool_calls=(call,)), when=when)


async def test_rules_and_allow_lists_change_in_every_process_and_a_bad_file_changes_nothing(
    tmp_path: Path, model: ModelSimulator
) -> None:
    both = ("worker", "adapter")
    async with SlackSimulator() as slack:
        path = write_config(
            tmp_path,
            model_url=model.base_url("openai-chat"),
            slack=slack_keys(slack, "socket", 0),
            extra="tools: {}",
        )
        alice, bob = slack.create_user("alice"), slack.create_user("bob")
        chat, other = slack.create_dm(alice), slack.create_dm(bob)
        async with clawbot(path, "run") as daemon:
            await noticed(daemon, "channel_up", 1, "adapter")
            uses(model, "clean up", "rm -rf build")
            await slack.user_says(chat, alice, "clean up")
            (approval,) = await asked(slack, chat)
            # What people allowed is judged by the rules as they are then.
            rewrite(path, ("tools: {}", RULES))
            await noticed(daemon, "config_reloaded", 1, *both)
            model.expect(Reply(text="Then not."), marker="Not made: nothing is deleted")
            await slack.user_says(chat, alice, f"!approve {approval}")
            await slack.wait_text("Then not.", channel=chat, timeout_s=30)
            # A bad file leaves the rules as they are, and says so.
            rewrite(path, ("do: deny", "do: perhaps"))
            await noticed(daemon, "config_not_reloaded", 1, *both)
            uses(model, "once more", "rm -rf build")
            model.expect(Reply(text="Still not."), marker="Not made: nothing is deleted")
            await slack.user_says(chat, alice, "once more")
            await slack.wait_text("Still not.", channel=chat, timeout_s=30)
            await until_status(path, "config is bad, so that what was read before stays")
            assert status_of(path).returncode == EXIT_BAD_CONFIG
            # Mended, with another list and a key that wants a restart.
            rewrite(
                path,
                ("do: perhaps", "do: allow"),
                ("dm: ['*']", f"dm: ['{bob}']"),
                ("web:", "workers: 2\nweb:"),
            )
            await noticed(daemon, "config_reloaded", 2, *both)
            daemon.process.send_signal(signal.SIGHUP)
            await noticed(daemon, "reload_requested", 1, "supervisor")
            await slack.user_says(chat, alice, "may I?")
            await slack.wait_text("I may not talk with you yet", channel=chat, timeout_s=30)
            uses(model, "and now", "rm -rf build; echo removed")
            model.expect(Reply(text="Removed."), marker="removed")
            await slack.user_says(other, bob, "and now")
            await slack.wait_text("Removed.", channel=other, timeout_s=30)
            await until_status(path, "needs a restart for: workers")
            assert await daemon.stop() == 0


async def test_a_part_that_met_a_bad_file_when_it_was_started_again_works_once_that_is_mended(
    tmp_path: Path, model: ModelSimulator
) -> None:
    async with SlackSimulator() as slack:
        path = write_config(
            tmp_path,
            model_url=model.base_url("openai-chat"),
            slack=slack_keys(slack, "socket", 0),
            extra="tools: {}",
        )
        alice = slack.create_user("alice")
        chat = slack.create_dm(alice)
        async with clawbot(path, "run") as daemon:
            await noticed(daemon, "channel_up", 1, "adapter")
            rewrite(path, ("tools: {}", "tools: []"))
            await noticed(daemon, "config_not_reloaded", 1, "worker", "adapter")
            os.kill(worker_pid(daemon), signal.SIGKILL)
            await noticed(daemon, "child_broken", 1, "supervisor")
            model.expect(Reply(text="Here I am."), when="anybody there")
            await slack.user_says(chat, alice, "anybody there?")
            await slack.wait_settled(timeout_s=30)  # taken in all the same
            rewrite(path, ("tools: []", "tools: {}"))
            await slack.wait_text("Here I am.", channel=chat, timeout_s=60)
            assert await daemon.stop() == 0


def worker_pid(daemon: Command) -> int:
    started = [one for one in events(daemon) if one["event"] == "child_started"]
    return int(next(one["pid"] for one in started if one["started"].startswith("worker")))


async def until_status(path: Path, text: str) -> None:
    """Wait until `clawbot status` says so: it shows what the last heartbeats told."""
    shown: list[str] = []

    def says_so() -> bool:
        shown.append(" ".join(status_of(path).stdout.split()))
        return text in shown[-1]

    await eventually(says_so)
