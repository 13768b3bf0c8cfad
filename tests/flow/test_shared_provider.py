"""Two workers and one provider, which sees no more requests a minute than are configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.agent import limiter
from clawbot.agent.limiter import Admitted, Limiter
from clawbot.store import processes
from clawbot.store.processes import ProcessRow
from tests.flow.conftest import connect, slack_keys
from tests.flow.daemon import run_daemon, write_config
from tests.simulators.model import ModelSimulator, Reply
from tests.simulators.slack import SlackSimulator

WINDOW_S = 3.0
REQUESTS = 2


class HaveBeaten:
    """Whether so many processes have beaten since the first look."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._ages: dict[str, int] = {}
        self._beaten: set[str] = set()

    def look(self, rows: list[ProcessRow]) -> bool:
        """Look again."""
        self._beaten |= {row.id for row in rows if row.age_ms < self._ages.get(row.id, 0)}
        self._ages = {row.id: row.age_ms for row in rows}
        return len(self._beaten) >= self._count


async def test_two_workers_share_what_a_provider_may_be_asked(
    tmp_path: Path, slack: SlackSimulator, model: ModelSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "WINDOW_S", WINDOW_S)
    admitted: list[tuple[Limiter, float]] = []
    admit = Limiter.admit

    async def noted(self: Limiter, provider: str, tokens: int) -> Admitted:
        found = await admit(self, provider, tokens)
        admitted.append((self, found.at))
        return found

    monkeypatch.setattr(Limiter, "admit", noted)
    path = write_config(
        tmp_path,
        model_url=model.base_url("openai-chat"),
        slack=slack_keys(slack, "socket", 0),
        extra="turns: {per_worker: 3}",
    )
    limited = f"api_key: made-up, requests_per_minute: {REQUESTS}"
    path.write_text(path.read_text().replace("api_key: made-up", limited))
    people = [slack.create_user(f"user{number}") for number in range(6)]
    chats = [slack.create_dm(person) for person in people]
    for number in range(6):
        model.expect(Reply(text=f"answer {number}."), when=f"question {number}.")
    async with run_daemon(path, "worker", "worker-2", "slack") as daemon:
        await connect(daemon, slack, None)
        await daemon.until(processes.live, lambda rows: len(rows) == 3)
        await daemon.until(processes.live, HaveBeaten(3).look)  # so each has counted the other
        for number in range(6):
            await slack.user_says(chats[number], people[number], f"question {number}.")
        for number in range(6):
            await slack.wait_text(f"answer {number}.", channel=chats[number], timeout_s=60)
    times = sorted(at for _, at in admitted)
    assert len({id(worker) for worker, _ in admitted}) == 2
    for first, third in zip(times, times[REQUESTS:], strict=False):
        assert third - first >= WINDOW_S
