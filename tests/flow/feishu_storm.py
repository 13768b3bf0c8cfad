"""Hours of mixed faults on a fast clock: people talk while links, calls, tokens and parts fail.

`python -m tests.flow.feishu_storm --hours 2 --speed 60 --seed 1` runs the whole script; the tests
run a short form. What happens when is drawn from the seed. At the end the simulator counts: every
message that was acknowledged is answered once, in its chat and topic.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from clawbot.store import outbox
from tests.flow.daemon import Daemon
from tests.flow.fast_clock import FastClock, running_by
from tests.flow.feishu_ground import connect, feishu_daemon
from tests.simulators.feishu import FOREVER, FeishuSimulator
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.model.conversation import RecordedRequest

CALLS = {
    "message.create": ["reset_after", "reset_before", "html", "http:503", "bad_json", "hang_after"],
    "message.reply": [
        "reset_after",
        "reset_before",
        "html",
        "error:2200",
        "error:230020",
        "error:99991663",
    ],
    "card.create": ["http:502", "error:300301", "reset_after", "error:99991672"],
    "card.content": ["error:300317", "error:230020", "html", "reset_before", "bad_json"],
    "card.settings": ["http:502", "reset_after"],
    "card.id_convert": ["http:502", "error:300302"],
    "tenant_access_token": ["http:502", "reset_before", "bad_json"],
    "user.get": ["http:502", "error:41050"],
    "chat.get": ["http:502", "slow:0.5"],
    "reaction.create": ["error:99991672", "http:502"],
    "reaction.delete": ["http:502", "reset_after"],
    "message.get": ["http:502", "error:99991663"],
    "*": ["ratelimited:5:400", "ratelimited:5:429"],
}
OUTAGES = ["http:503", "reset_before", "reset_after", "error:99991400"]
SENDS = ("message.create", "message.reply")
TOKEN = re.compile(r"ask-\d{4}")
PATIENT = tuple(0.25 for _ in range(2000))
END_S = 90.0
MEAN_GAP_S = 10.0  # between two things that happen


@dataclass(slots=True, kw_only=True)
class Figures:
    """What came of it. lost, doubled: answers; unknown: replies whose fate nobody knows."""

    seed: int
    hours: float
    messages: int = 0
    copies: int = 0
    faults: int = 0
    links_lost: int = 0
    restarts: int = 0
    sent: int = 0
    edits: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    astray: list[str] = field(default_factory=list)
    unfinished: int = 0
    unknown: int = 0
    model_calls: int = 0
    took_s: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether everything was answered once, where it was asked."""
        wrong = (self.lost, self.doubled, self.astray, self.unfinished, self.unknown)
        return not any(wrong)


def answer(request: RecordedRequest) -> Reply:
    """Name what was asked, in pieces, so that answers grow."""
    asked = " ".join(TOKEN.findall(request.last_user_text))
    pieces = (f"answer to {asked}\n\n", *(f"word{number} " for number in range(12)))
    return Reply(text=pieces, delay_s=0.03)


class Storm:
    """One run of the script."""

    def __init__(
        self, feishu: FeishuSimulator, daemon: Daemon, clock: FastClock, transport: str, seed: int
    ) -> None:
        self._feishu = feishu
        self._daemon = daemon
        self._clock = clock
        self._transport = transport
        self._chance = random.Random(seed)  # noqa: S311  # the script must repeat
        self._asked: dict[str, tuple[str, str]] = {}
        self._said: list[str] = []
        self._roots: list[str] = []
        self._outage_ends_s = 0.0
        self.figures = Figures(seed=seed, hours=0.0)

    async def run(self, hours: float) -> Figures:
        """Let it happen, then let it calm down, then count."""
        self.figures.hours = hours
        began = time.monotonic()
        for topic in ("ships", "shoes", "wax"):
            root = await self._feishu.user_says("team", "bob", f"about {topic}")
            self._roots.append(root)
        chances: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (10, self._say),
            (7, self._fail_calls),
            (2, self._repeat),
            (1, self._reorder),
            (2, self._lose_link),
            (1, self._expire_token),
            (0.5, self._begin_outage),
            (0.3, self._restart),
            (1, self._break_frames),
        ]
        weights, acts = [weight for weight, _ in chances], [act for _, act in chances]
        for _ in range(round(hours * 3600 / MEAN_GAP_S)):
            await self._chance.choices(acts, weights)[0]()
            self._end_outage_in_time()
            await self._clock.sleep(self._chance.expovariate(1 / MEAN_GAP_S))
        await self._calm_down()
        self._count()
        states = await self._daemon.store.read(outbox.count_by_state)
        self.figures.unknown = sum(states.get(state, 0) for state in ("unknown", "dead", "held"))
        self.figures.took_s = round(time.monotonic() - began, 1)
        return self.figures

    # -- what people do ----------------------------------------------------------------------------

    async def _say(self) -> None:
        words = f"ask-{len(self._asked):04d}"
        name = self._chance.choice(["alice", "bob"])
        where = self._chance.choice(["dm", "dm", "group", "topic", "board"])
        thread = self._chance.choice(self._roots) if where == "topic" else ""
        chat = self._feishu.create_dm(name) if where == "dm" else "team"
        chat = "board" if where == "board" else chat
        said = await self._feishu.user_says(chat, name, words, mention=where != "dm", thread=thread)
        root = thread or (said if where == "board" else "")
        self._asked[words] = (self._feishu.chat(chat).id, root)
        self._said.append(said)

    async def _repeat(self) -> None:
        """Something is delivered again, now or long after."""
        if self._said:
            kind = self._chance.choice(["", "new_event_id", "new_message_id"])
            await self._feishu.redeliver(
                self._chance.choice(self._said), **({kind: True} if kind else {})
            )
            self.figures.copies += 1

    async def _reorder(self) -> None:
        self._feishu.hold_events()
        for _ in range(self._chance.randint(2, 4)):
            await self._say()
        self._feishu.release_events("reversed")

    # -- what fails --------------------------------------------------------------------------------

    async def _fail_calls(self) -> None:
        if self._outage_ends_s:
            return
        self._feishu.clear_faults()  # one that nothing ran into must not pile up
        for api in self._chance.sample(sorted(CALLS), 4):
            times = self._chance.randint(1, 3)
            self._feishu.fail_next(api, self._chance.choice(CALLS[api]), times)

    async def _begin_outage(self) -> None:
        """No message goes out for a while, often longer than a uuid is known."""
        if self._outage_ends_s:
            return
        how = self._chance.choice(OUTAGES)
        self._feishu.clear_faults()
        for api in SENDS:
            self._feishu.fail_next(api, "reset_after")  # this one was taken, but who knows
            self._feishu.fail_next(api, "http:503" if how == "reset_after" else how, FOREVER)
        longest_s = min(self.figures.hours * 3600 / 3, 4500)
        self._outage_ends_s = self._clock.elapsed_s() + self._chance.uniform(60, longest_s)

    def _end_outage_in_time(self) -> None:
        if self._outage_ends_s and self._clock.elapsed_s() > self._outage_ends_s:
            self._feishu.clear_faults()
            self._outage_ends_s = 0.0

    async def _lose_link(self) -> None:
        self.figures.links_lost += 1
        match self._chance.randrange(4):
            case 0:
                await self._feishu.close_connections(self._chance.choice([1000, 1001, 1011]))
            case 1:
                self._feishu.refuse_handshake(514, "busy", detail=1000040350)
                await self._feishu.drop_connection()
            case 2:
                self._feishu.fail_next("ws.endpoint", self._chance.choice(["http:502", "error:1"]))
                await self._feishu.drop_connection()
            case _:
                await self._feishu.drop_connection()

    async def _break_frames(self) -> None:
        self._feishu.fragment(
            self._chance.choice([0, 50, 200]), self._chance.choice(["same", "reversed", "lost"])
        )
        await self._feishu.sockets.send_raw(b"\xff\xff no frame")
        await self._feishu.sockets.send_pong(b"{}")
        await self._feishu.send_event("brand.new.event_v9", {"what": "ever"})

    async def _expire_token(self) -> None:
        await self._feishu.expire_token()

    async def _restart(self) -> None:
        """A part ends, in order or not, and begins anew."""
        name = self._chance.choice(["worker", "feishu"])
        end = self._daemon.stop if self._chance.random() < 0.5 else self._daemon.kill
        await end(name)
        await self._clock.sleep(self._chance.uniform(0, 30))
        await self._daemon.start(name)
        if name == "feishu":
            await connect(self._daemon, self._feishu, self._transport)
        self.figures.restarts += 1

    # -- the end -----------------------------------------------------------------------------------

    async def _calm_down(self) -> None:
        self._feishu.clear_faults()
        self._feishu.fragment(0)
        async with asyncio.timeout(END_S):
            await self._feishu.wait_settled(timeout_s=END_S)
            while True:
                try:
                    await self._daemon.until_quiet()
                except TimeoutError:
                    continue
                return

    def _count(self) -> None:
        """By what stands in the chats, as the simulator shows it."""
        places: dict[str, list[tuple[str, str]]] = {}
        for sent in self._feishu.sent():
            for words in TOKEN.findall(sent.text):
                places.setdefault(words, []).append(
                    (sent.chat, sent.root_id if sent.thread_id else "")
                )
        for words, place in self._asked.items():
            found = places.get(words, [])
            if not found:
                self.figures.lost.append(words)
            elif len(found) > 1:
                self.figures.doubled.append(words)
            elif found[0] != place:
                self.figures.astray.append(f"{words}: {found[0]}, not {place}")
        sent = self._feishu.sent()
        self.figures.messages = len(self._asked)
        self.figures.faults = sum(call.fault is not None for call in self._feishu.calls())
        self.figures.sent = len(sent)
        self.figures.edits = sum(each.edits for each in sent)
        self.figures.unfinished = sum(each.streaming for each in sent)


async def storm(folder: Path, *, seed: int, hours: float, speed: float, transport: str) -> Figures:
    """Make a tenant and a daemon for one run."""
    clock = FastClock(speed)
    async with (
        FeishuSimulator(
            bot_name="clawbot",
            ack_timeout_s=1.0,
            retry_delays_s=PATIENT,
            seed=seed,
            now=clock.now_s,
        ) as feishu,
        ModelSimulator(responder=answer) as model,
    ):
        for name in ("alice", "bob"):
            feishu.create_user(name, open_id=f"ou_{name}")
        feishu.create_group("team", ["alice", "bob"], chat_id="oc_team")
        feishu.create_group("board", ["alice", "bob"], chat_id="oc_board", topics=True)
        limits = {"grace_s": 60, "sender_per_minute": 0, "chat_per_minute": 0}
        with running_by(clock):
            async with feishu_daemon(folder, feishu, model, transport, limits=limits) as daemon:
                figures = await Storm(feishu, daemon, clock, transport, seed).run(hours)
        figures.model_calls = len(model.requests)
        return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script for each seed; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.flow.feishu_storm", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0, help="how long, on the fast clock")
    parser.add_argument("--speed", type=float, default=60.0, help="how much faster it runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from --seed on")
    parser.add_argument("--transport", default="long_connection")
    chosen = parser.parse_args(arguments)
    all_good = True
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        with tempfile.TemporaryDirectory(prefix="clawbot-storm-") as folder:
            figures = asyncio.run(
                storm(
                    Path(folder),
                    seed=seed,
                    hours=chosen.hours,
                    speed=chosen.speed,
                    transport=chosen.transport,
                )
            )
        sys.stdout.write(json.dumps(asdict(figures)) + "\n")
        all_good &= figures.is_good
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
