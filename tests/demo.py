"""`python -m tests.demo`: people talk to the bot in two channels and a direct message.

Starts a simulated Slack, a simulated model and the real daemon (`clawbot run`: its processes, its
store, Slack's own SDK), plays a few scenes, and prints what stands in each chat afterwards. Exits
with 0 when everybody was answered. No account, no key, nothing leaves the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.simulators.model import ModelSimulator, RecordedRequest, Reply, ToolCall
from tests.simulators.slack import SlackSimulator
from tests.transcript import transcript

ROOT = Path(__file__).parent.parent
START_TIMEOUT_S = 90.0
ANSWER_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 15.0
CONFIG = """\
state_dir: {folder}/state
model: openai-chat:simulated
providers:
  openai-chat: {{base_url: "{model_url}", api_key: made-up}}
web: {{enabled: false}}
limits: {{grace_s: 5}}
channels:
  slack:
    mode: socket
    bot_token: {slack.bot_token}
    app_token: {slack.app_token}
    api_base_url: {slack.api_url}
    allow: {{dm: ['*'], groups: ['*'], senders: ['*']}}
"""

# -- what the model says ---------------------------------------------------------------------------

DEPLOY = (
    "We deploy from `main`:\n\n1. Merge the pull request.\n2. Wait for the green build.\n"
    "3. Run `make release`.\n\nThe whole thing takes about *ten* minutes, and you can go on "
    "working meanwhile."
)


def simulated_model(request: RecordedRequest) -> Reply:
    """Answer by the words of the newest message, with what else the request holds."""
    asked = request.last_user_text
    if "what is in your folder" in asked:
        return _look_around(request)
    for words, answer in ANSWERS.items():
        if words in asked:
            # In pieces, so that one can see the longer ones grow.
            return Reply(text=tuple(re.findall(r"\S+\s*", answer)), delay_s=0.03)
    if "who was on call" in asked:
        known = "carol: I am on call" in request.all_text
        return Reply(text="Carol was; she said so here." if known else "I do not know.")
    return Reply(text=f"I have no line for {asked!r}.")


ANSWERS = {
    "what can you do": "I answer questions, and I can **read files** in this chat's folder.",
    "how do we deploy": DEPLOY,
    "and how do we roll back": "Run `make rollback`: it brings the release before back.",
    "is the database healthy": "Yes: 12 connections, no slow query in the last hour.",
}


def _look_around(request: RecordedRequest) -> Reply:
    results = [result for message in request.messages for result in message.tool_results]
    if not results:
        return Reply(tool_calls=(ToolCall(name="list_dir", arguments={"path": "."}),))
    return Reply(text=f"I looked, and found this:\n\n```\n{results[-1].text.strip()}\n```")


# -- what people say -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Town:
    """The chats that people talk in."""

    slack: SlackSimulator
    dm: str
    general: str
    ops: str

    @classmethod
    def build(cls, slack: SlackSimulator) -> Town:
        """Three people, two channels, one direct message."""
        people = [slack.create_user(name) for name in ("alice", "bob", "carol")]
        return cls(
            slack=slack,
            dm=slack.create_dm(people[0]),
            general=slack.create_channel("general", people),
            ops=slack.create_channel("ops", people),
        )

    async def play(self) -> None:
        """The scenes; each waits for its answers. Raise TimeoutError when one does not come."""
        says = self.slack.user_says
        await says(self.dm, "alice", "Hi, what can you do?")
        await self.answered(self.dm, "read files")
        # A mention opens a thread; while its answer grows, others ask elsewhere.
        root = await says(self.general, "bob", "how do we deploy?", mention=True)
        await says(self.dm, "alice", "And what is in your folder?")
        await self.answered(self.general, "working meanwhile")
        await self.answered(self.dm, "I looked")
        # Two at once; in a thread that the bot answers in, nobody needs to name it.
        await asyncio.gather(
            says(self.general, "bob", "and how do we roll back?", thread_ts=root),
            says(self.ops, "carol", "is the database healthy?", mention=True),
        )
        await self.answered(self.general, "make rollback")
        await self.answered(self.ops, "12 connections")
        # What people tell each other is not answered, but it is context for the next question.
        await says(self.ops, "carol", "I am on call this week")
        await says(self.ops, "alice", "who was on call?", mention=True)
        await self.answered(self.ops, "Carol was")
        # A command is answered at once, without the model.
        await says(self.general, "bob", "!status", thread_ts=root)
        await self.answered(self.general, "Idle")

    async def answered(self, chat: str, words: str) -> None:
        """Wait until the bot has said this."""
        await self.slack.wait_text(words, channel=chat, timeout_s=ANSWER_TIMEOUT_S)

    def transcript(self) -> Iterator[str]:
        """What stands in the chats."""
        titles = {self.dm: "alice and the bot", self.general: "#general", self.ops: "#ops"}
        return transcript(self.slack, titles)


# -- the daemon ------------------------------------------------------------------------------------


@asynccontextmanager
async def daemon(
    folder: Path, slack: SlackSimulator, model_url: str, more: str = ""
) -> AsyncIterator[Path]:
    """`clawbot run` in front of the simulators, connected; yields its log. more: YAML to be added
    to the channel's keys, or, not indented, to the file.
    """
    config, log = folder / "clawbot.yaml", folder / "clawbot.log"
    config.write_text(CONFIG.format(folder=folder, slack=slack, model_url=model_url) + more)
    with log.open("wb") as lines:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "clawbot", "run", "--config", str(config)),
            cwd=ROOT,
            stdout=lines,
            stderr=lines,
        )
    try:
        await slack.wait_connected(timeout_s=START_TIMEOUT_S)
        yield log
    finally:
        if process.returncode is None:
            process.terminate()
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()


async def demo(folder: Path) -> int:
    """Play and print; the exit code."""
    started = time.monotonic()
    log = folder / "clawbot.log"
    async with (
        SlackSimulator(bot_name="clawbot") as slack,
        ModelSimulator(simulated_model) as model,
    ):
        town = Town.build(slack)
        try:
            async with daemon(folder, slack, model.base_url()):
                sys.stdout.write("The daemon is connected; alice, bob and carol talk to it.\n")
                sys.stdout.flush()
                await town.play()
                await slack.wait_settled()
        except TimeoutError as error:
            written = await asyncio.to_thread(log.read_text) if log.exists() else ""
            sys.stderr.write(f"{written}\nnobody answered: {error}\n")
            return 1
        finally:
            sys.stdout.write("\n".join(town.transcript()) + "\n")
        if model.violations:
            sys.stderr.write(f"a model request was not legal: {model.violations}\n")
            return 1
        grown = sum(1 for message in slack.sent() if message.edits)
        sys.stdout.write(
            f"\n{len(slack.sent())} answers from {len(model.requests)} model calls, {grown} of them"
            f" shown while they grew, in {time.monotonic() - started:.0f} s\n"
        )
    return 0


def main() -> int:
    """Run in a folder of its own."""
    argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="clawbot-demo-") as folder:
        return asyncio.run(demo(Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
