"""`python -m tests.mending`: alice asks in a channel to have the failing tests of a project mended.

A simulated Slack, a scripted model and the real daemon: its processes, its store, Slack's own SDK,
real commands in the sandbox. The model runs the tests, reads, edits, runs them again, and wants to
push, about which alice is asked; she presses the button. Prints the thread as it stands at the
three moments, and the trace of the turn. Exits with 0 when the project is mended and pushed.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from clawbot.session_key import SessionKey
from clawbot.work_dirs import work_dir_of
from tests.demo import daemon
from tests.simulators.model import ModelSimulator, RecordedRequest, Reply, ToolCall
from tests.simulators.slack import SlackSimulator
from tests.transcript import transcript

PROJECT = Path(__file__).parent / "cases" / "fix-the-total" / "project"
WAIT_S = 90.0
APPROVE = "clawbot_command:0"
MORE = """\
    shared_dirs: ["{origin}"]
tracing: {{files: true}}
"""

# -- what the model says ---------------------------------------------------------------------------

OLD = """\
    cents = 0
    for price in prices:
        cents += price - price * discount_percent // 100
    return cents"""
NEW = """\
    cents = sum(prices)
    return cents - cents * discount_percent // 100"""
TESTS = "python3 -m unittest"
PUSH = "git commit -qam 'Take the discount off the whole basket' && git push origin HEAD"


def _run(command: str) -> ToolCall:
    return ToolCall(name="bash", arguments={"command": command})


def _read(path: str) -> ToolCall:
    return ToolCall(name="read_file", arguments={"path": path})


STEPS: tuple[tuple[str, Reply], ...] = (
    ("", Reply(text="I run the tests first.", tool_calls=(_run(TESTS),))),
    ("FAILED (failures=1)", Reply(tool_calls=(_read("shop.py"), _read("test_shop.py")))),
    (
        "discount_percent=10",
        Reply(
            text="The discount is rounded for each price, so that a few cents of it get lost. "
            "I take it off the sum instead.",
            tool_calls=(
                ToolCall(
                    name="edit_file",
                    arguments={"path": "shop.py", "old_text": OLD, "new_text": NEW},
                ),
            ),
        ),
    ),
    ("shop.py", Reply(tool_calls=(_run(TESTS),))),
    ("OK", Reply(text="All tests pass now. I commit and push it.", tool_calls=(_run(PUSH),))),
    (
        "HEAD",
        Reply(
            text="Done: `total` in `shop.py` took the discount off each price and dropped the part "
            "of a cent each time; now it takes it off the sum, once. Both tests pass, and the "
            "commit *Take the discount off the whole basket* is pushed."
        ),
    ),
)
"""What it says when the newest results of its tools hold these words, step by step."""


def simulated_model(request: RecordedRequest, steps: Sequence[tuple[str, Reply]] = STEPS) -> Reply:
    """The next step, if the last one came to what it should have."""
    results = [result.text for message in request.messages for result in message.tool_results]
    done = sum(bool(message.tool_calls) for message in request.messages)
    words, reply = steps[min(done, len(steps) - 1)]
    if words and not any(words in text for text in results[-2:]):
        return Reply(text=f"I did not expect this: {results[-1] if results else 'nothing'}")
    # In pieces, so that one can see the text grow.
    pieces = tuple(re.findall(r"\S+\s*", "".join(reply.text)))
    return Reply(text=pieces, tool_calls=reply.tool_calls, delay_s=0.02)


# -- what people do --------------------------------------------------------------------------------


def prepare(work: Path, origin: Path) -> None:
    """A clone of a project in the chat's directory, and where it comes from."""
    work.mkdir(parents=True)
    shutil.copytree(PROJECT, work, dirs_exist_ok=True)
    (work / ".gitignore").write_text("__pycache__/\n")
    for command in (
        ("init", "-q", "--bare", "-b", "main", str(origin)),
        ("init", "-q", "-b", "main"),
        ("config", "user.name", "clawbot"),
        ("config", "user.email", "clawbot@example.org"),
        ("add", "."),
        ("commit", "-qm", "The shop"),
        ("remote", "add", "origin", str(origin)),
        ("push", "-q", "origin", "main"),
    ):
        subprocess.run(["git", *command], cwd=work, check=True)


def pushed(origin: Path) -> str:
    """The shop as it stands where the project comes from."""
    show = ["git", "--git-dir", str(origin), "log", "-1", "-p", "--format=%s", "main"]
    return subprocess.run(show, check=True, capture_output=True, text=True).stdout


def show(slack: SlackSimulator, chat: str, moment: str) -> None:
    """Print what alice sees."""
    sys.stdout.write("\n".join(transcript(slack, {chat: f"#shop, {moment}"})) + "\n")
    sys.stdout.flush()


async def play(slack: SlackSimulator, chat: str, origin: Path) -> None:
    """Alice asks, sees, presses. Raise TimeoutError when nothing comes of it."""
    await slack.user_says(
        chat,
        "alice",
        "the tests of our shop fail since this morning, can you mend it?",
        mention=True,
    )
    asked = await slack.wait_text("May I do this?", channel=chat, timeout_s=WAIT_S)
    await slack.wait_settled()
    show(slack, chat, "while the agent asks")
    before = await asyncio.to_thread(pushed, origin)
    assert before.startswith("The shop"), "nothing is pushed before it is allowed"
    await slack.press_button(chat, asked.ts, "alice", APPROVE)
    await slack.wait_text("is pushed", channel=chat, timeout_s=WAIT_S)
    await slack.wait_text("Approved", channel=chat, timeout_s=WAIT_S)
    await slack.wait_settled()
    show(slack, chat, "at the end")


async def run(folder: Path) -> int:
    """Play and print; the exit code."""
    origin, log = folder / "shop.git", folder / "clawbot.log"
    async with (
        SlackSimulator(bot_name="clawbot") as slack,
        ModelSimulator(simulated_model) as model,
    ):
        chat = slack.create_channel("shop", [slack.create_user("alice")])
        work = work_dir_of(folder / "state", SessionKey.of_chat("slack", chat))
        await asyncio.to_thread(prepare, work, origin)
        try:
            async with daemon(folder, slack, model.base_url(), MORE.format(origin=origin)):
                await play(slack, chat, origin)
        except TimeoutError as error:
            show(slack, chat, "when it was given up")
            written = await asyncio.to_thread(log.read_text) if log.exists() else ""
            sys.stderr.write(f"{written}\nit came to nothing: {error}\n")
            return 1
        if model.violations:
            sys.stderr.write(f"a model request was not legal: {model.violations}\n")
            return 1
    change = await asyncio.to_thread(pushed, origin)
    sys.stdout.write(f"\n── what was pushed {'─' * 60}\n{change}")
    sys.stdout.write(f"\n── what the turn did {'─' * 58}\n")
    sys.stdout.flush()
    command = (sys.executable, "-m", "clawbot", "trace", "last", "-c", str(folder / "clawbot.yaml"))
    await (await asyncio.create_subprocess_exec(*command)).wait()
    return 0


def main() -> int:
    """Run in a folder of its own."""
    argparse.ArgumentParser(prog="python -m tests.mending", description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="clawbot-mending-") as folder:
        return asyncio.run(run(Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
