"""Delivering replies on a real store, through a platform that is played by hand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clawbot.clock import SystemClock
from clawbot.delivery import Delivery
from clawbot.errors import NotSent, OutcomeUnknown, Rejected, SendError
from clawbot.lease import Heartbeat
from clawbot.messages import ChannelHealth, Limits, MessageRef, OutboundFile, OutboundPart
from clawbot.ports import Accept, Store
from clawbot.store import blobs, outbox, revisions
from tests.contracts.sqlite_ground import SqliteGround, make_template
from tests.contracts.store import scenes
from tests.contracts.store.scenes import DESK, NOW_MS, begin, draft, finish, put_reply, take_replies

WAIT_S = 10


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("delivery"))


@pytest.fixture
async def store(template: Path) -> AsyncIterator[Store]:
    made = SqliteGround(template, patience_s=WAIT_S)
    yield await made.open("adapter")
    await made.close()


class Platform:
    """An adapter whose chat is a list of texts; `fails` holds what its next calls raise."""

    limits = Limits(max_size=200)

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.send_fails: list[SendError] = []
        self.edit_fails: list[SendError] = []
        self.edits = 0

    async def check(self) -> ChannelHealth:
        return ChannelHealth(state="up")

    async def receive(self, accept: Accept) -> None:
        raise NotImplementedError

    async def send(self, part: OutboundPart) -> MessageRef:
        if self.send_fails:
            raise self.send_fails.pop()
        self.shown.append(part.text)
        return MessageRef(id=str(len(self.shown) - 1))

    async def edit(self, ref: MessageRef, part: OutboundPart) -> None:
        self.edits += 1
        if self.edit_fails:
            raise self.edit_fails.pop()
        self.shown[int(ref.id)] = part.text

    def measure(self, text: str) -> int:
        return len(text)

    async def close(self) -> None:
        pass


class SceneClock(SystemClock):
    """Real time, from the moment of the scenes on, or from later."""

    def __init__(self, later_s: float = 0.0) -> None:
        self._began = self.monotonic() - later_s

    def now_ms(self) -> int:
        return NOW_MS + round((self.monotonic() - self._began) * 1000)


class LateOnce(Heartbeat):
    """A heartbeat that was late for a moment: fresh again after a few looks."""

    looks = 0

    @property
    def is_fresh(self) -> bool:
        self.looks += 1
        return self.looks not in {2, 3}


@asynccontextmanager
async def delivering(
    store: Store,
    platform: Platform,
    heartbeat_type: type[Heartbeat] = Heartbeat,
    later_s: float = 0.0,
) -> AsyncIterator[None]:
    clock = SceneClock(later_s)
    heartbeat = heartbeat_type(store, clock, "adapter", "adapter", interval_s=5, lease_s=15)
    await heartbeat.begin()
    stop = asyncio.Event()
    delivery = Delivery(store, clock, heartbeat, DESK, platform, grace_s=1)
    task = asyncio.create_task(delivery.run(stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(task, WAIT_S)


async def until(store: Store, *states: str) -> None:
    """Wait until the replies are in these states."""
    async with asyncio.timeout(WAIT_S):
        while await scenes.column(store, "outbox.state") != list(states):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def until_shown(platform: Platform, *texts: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while platform.shown != list(texts):  # noqa: ASYNC110 the platform sets no event
            await asyncio.sleep(0.01)


async def test_an_edit_refused_while_a_reply_grows_is_tried_again_at_its_end(store: Store) -> None:
    platform = Platform()
    async with delivering(store, platform):
        turn = await begin(store)
        await draft(store, turn, "half")
        await until_shown(platform, "half")
        platform.edit_fails.append(Rejected("too many edits", code="limit"))
        await draft(store, turn, "half and")
        async with asyncio.timeout(WAIT_S):
            while not platform.edits:  # noqa: ASYNC110 the platform sets no event
                await asyncio.sleep(0.01)
        await finish(store, turn, "half and half")
        await until(store, "sent")
    assert platform.shown == ["half and half"]


async def test_a_reply_whose_end_cannot_be_shown_does_not_count_as_sent(store: Store) -> None:
    platform = Platform()
    async with delivering(store, platform):
        turn = await begin(store)
        await draft(store, turn, "half")
        await until_shown(platform, "half")
        platform.edit_fails.append(Rejected("message gone", code="message_not_found"))
        await finish(store, turn, "half and half")
        await until(store, "dead")
    assert await scenes.column(store, "outbox.reason") == ["message_not_found"]


async def test_an_edit_of_unknown_outcome_is_repeated(store: Store) -> None:
    platform = Platform()
    async with delivering(store, platform):
        turn = await begin(store)
        await draft(store, turn, "half")
        await until_shown(platform, "half")
        platform.edit_fails.append(OutcomeUnknown("no answer"))
        await finish(store, turn, "half and half")
        await until(store, "sent")
    assert platform.shown == ["half and half"]


async def test_a_process_whose_lease_was_late_sends_its_replies_all_the_same(store: Store) -> None:
    platform = Platform()
    await put_reply(store, "first")
    await put_reply(store, "second")
    async with delivering(store, platform, LateOnce):
        await until(store, "sent", "sent")
    assert platform.shown == ["first", "second"]


async def test_a_reply_that_its_living_holder_left_off_is_in_doubt_and_free(store: Store) -> None:
    await put_reply(store)
    (row,) = await take_replies(store, "one")
    await store.write(lambda tx: outbox.let_go(tx, row.id, "another"))
    assert await take_replies(store, "two") == []
    await store.write(lambda tx: outbox.let_go(tx, row.id, "one"))
    (again,) = await take_replies(store, "two")
    assert [part.state for part in again.parts.values()] == ["unknown"]


async def test_a_send_that_surely_failed_is_repeated_in_its_order(store: Store) -> None:
    platform = Platform()
    platform.send_fails.append(NotSent("busy", retry_after_s=0.1))
    await put_reply(store, "first")
    await put_reply(store, "second")
    async with delivering(store, platform):
        await until(store, "sent", "sent")
    assert platform.shown == ["first", "second"]


async def test_a_send_of_unknown_outcome_is_never_repeated_silently(store: Store) -> None:
    platform = Platform()
    platform.send_fails.append(OutcomeUnknown("no answer"))
    await put_reply(store, "first")
    await put_reply(store, "second")
    async with delivering(store, platform):
        await until(store, "unknown", "sent")
    assert platform.shown == ["second"]


async def test_a_send_that_never_ends_holds_its_lane_no_longer_than_its_time(store: Store) -> None:
    class Hanging(Platform):
        limits = Limits(max_size=200, send_timeout_s=0.05)

        async def send(self, part: OutboundPart) -> MessageRef:
            if part.text == "first":
                await asyncio.Event().wait()
            return await super().send(part)

    platform = Hanging()
    await put_reply(store, "first")
    await put_reply(store, "second")
    async with delivering(store, platform):
        await until(store, "unknown", "sent")
    assert platform.shown == ["second"]


async def test_a_long_reply_is_sent_in_parts_of_the_platform_s_size(store: Store) -> None:
    platform = Platform()
    paragraphs = [f"{number} " + "word " * 35 for number in range(3)]
    await put_reply(store, "\n\n".join(paragraphs))
    async with delivering(store, platform):
        await until(store, "sent")
    assert [text.strip() for text in platform.shown] == [text.strip() for text in paragraphs]


class LookingPlatform(Platform):
    """A platform that can be asked what it took."""

    async def lookup(self, part: OutboundPart) -> MessageRef | None:
        return MessageRef(id="0") if self.shown else None


async def test_a_part_found_by_a_look_up_is_brought_up_to_date(store: Store) -> None:
    turn = await begin(store)
    await draft(store, turn, "half")
    (row,) = await take_replies(store, "dead")
    row = await store.write(lambda tx: outbox.begin_part(tx, row, "dead", 0, "half"))
    platform = LookingPlatform()
    platform.shown = ["half"]  # it was taken, and its sender died before it could say so
    await store.write(lambda tx: outbox.release_holder(tx, "dead"))
    await finish(store, turn, reply="half and whole")
    async with delivering(store, platform):
        await until(store, "sent")
    assert platform.shown == ["half and whole"]


# -- doubt -----------------------------------------------------------------------------------------


class ForgetfulPlatform(Platform):
    """One that knows keys for an hour; `took` says whether it took what it does not answer."""

    limits = Limits(max_size=200, has_idempotency_keys=True, idempotency_s=3600)

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    async def send(self, part: OutboundPart) -> MessageRef:
        self.keys.append(part.key)
        return await super().send(part)


class SearchablePlatform(ForgetfulPlatform):
    """It can be asked as well; `answers` holds what it says, or raises."""

    def __init__(self, *answers: MessageRef | SendError | None) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[OutboundPart] = []

    async def lookup(self, part: OutboundPart) -> MessageRef | None:
        self.asked.append(part)
        answer = self.answers.pop(0)
        if isinstance(answer, SendError):
            raise answer
        return answer


async def leave_in_doubt(store: Store, text: str = "reply") -> None:
    """A process has died while it sent a reply."""
    await put_reply(store, text)
    await take_replies(store, "dead", NOW_MS)
    await store.write(lambda tx: outbox.release_holder(tx, "dead"))


HOUR_S = 3600.0


async def test_within_its_time_a_part_in_doubt_is_repeated_under_its_key(store: Store) -> None:
    platform = SearchablePlatform()
    await leave_in_doubt(store)
    async with delivering(store, platform, later_s=HOUR_S - 60):
        await until(store, "sent")
    assert (len(platform.keys), platform.asked) == (1, [])


async def test_a_part_in_doubt_whose_key_is_forgotten_stays_unknown(store: Store) -> None:
    platform = ForgetfulPlatform()
    await leave_in_doubt(store)
    async with delivering(store, platform, later_s=HOUR_S):
        await until(store, "unknown")
    assert platform.keys == []


async def test_where_it_can_be_asked_what_was_taken_is_not_sent_again(store: Store) -> None:
    platform = SearchablePlatform(NotSent("busy", retry_after_s=0.01), MessageRef(id="0"))
    platform.shown.append("reply")
    await leave_in_doubt(store)
    async with delivering(store, platform, later_s=HOUR_S):
        await until(store, "sent")
    assert (platform.keys, len(platform.asked)) == ([], 2)
    assert {part.tried_ms for part in platform.asked} == {NOW_MS}


async def test_what_was_surely_not_taken_is_sent_and_its_key_is_good_again(store: Store) -> None:
    platform = SearchablePlatform(None)
    platform.send_fails = [OutcomeUnknown("no answer")]
    await leave_in_doubt(store)
    async with delivering(store, platform, later_s=HOUR_S):
        await until(store, "sent")
    assert (len(platform.keys), len(platform.asked), platform.shown) == (2, 1, ["reply"])


async def test_a_question_without_an_answer_leaves_a_part_unknown(store: Store) -> None:
    platform = SearchablePlatform(Rejected("no permission to look", code="scope"))
    await leave_in_doubt(store)
    async with delivering(store, platform, later_s=HOUR_S):
        await until(store, "unknown")
    assert platform.keys == []


# -- files -----------------------------------------------------------------------------------------


async def revised(store: Store, platform: Platform) -> None:
    """A question stands in the chat, and is decided."""
    row_id = await put_reply(store, "May I?", can_edit=True)
    await until_shown(platform, "May I?")
    await until(store, "sent")
    await store.write(lambda tx: revisions.revise(tx, row_id, "May I? Yes."))


async def test_a_revised_reply_is_changed_where_it_stands(store: Store) -> None:
    platform = Platform()
    async with delivering(store, platform):
        await revised(store, platform)
        await until_shown(platform, "May I? Yes.")
        await until(store, "sent")


async def test_a_revision_that_is_refused_leaves_the_reply_as_sent(store: Store) -> None:
    platform = Platform()
    platform.edit_fails.append(Rejected("the message is gone", code="message_not_found"))
    async with delivering(store, platform):
        await revised(store, platform)
        await until(store, "sent")
    assert platform.edit_fails == []
    assert platform.shown == ["May I?"]
    assert await scenes.column(store, "outbox.reason") == [""]


class FilePlatform(Platform):
    """One that takes files: they stand in the chat as their bytes."""

    limits = Limits(max_size=200, max_file_bytes=10)

    def __init__(self) -> None:
        super().__init__()
        self.upload_fails: list[SendError] = []
        self.files: list[tuple[str, bytes]] = []

    async def upload(self, part: OutboundPart, data: bytes) -> MessageRef:
        if self.upload_fails:
            raise self.upload_fails.pop()
        assert part.file is not None
        self.files.append((part.file.name, data))
        return MessageRef(id=f"file-{len(self.files)}")


async def put_file(store: Store, data: bytes = b"1,2", *, is_kept: bool = True) -> None:
    digest = await blobs.keep(store, data, NOW_MS) if is_kept else "gone"
    file = OutboundFile(name="a.csv", mime="text/csv", size_bytes=len(data), blob=digest)
    await put_reply(store, "no file", file=file)


async def test_a_file_is_uploaded_in_its_place_in_the_lane(store: Store) -> None:
    platform = FilePlatform()
    await put_reply(store, "before")
    await put_file(store)
    await put_reply(store, "after")
    async with delivering(store, platform):
        await until(store, "sent", "sent", "sent")
    assert platform.shown == ["before", "after"]
    assert platform.files == [("a.csv", b"1,2")]


@pytest.mark.parametrize("problem", ["too large", "gone", "refused", "no files here"])
async def test_a_file_that_cannot_be_sent_is_told_of(store: Store, problem: str) -> None:
    platform = Platform() if problem == "no files here" else FilePlatform()
    if problem == "refused" and isinstance(platform, FilePlatform):
        platform.upload_fails.append(Rejected("this type is not allowed", code="type"))
    await put_file(store, b"x" * (11 if problem == "too large" else 3), is_kept=problem != "gone")
    async with delivering(store, platform):
        await until(store, "sent")
    assert platform.shown == ["no file"]


async def test_an_upload_that_failed_before_it_arrived_is_tried_again(store: Store) -> None:
    platform = FilePlatform()
    platform.upload_fails.append(NotSent("the line is down", retry_after_s=0.01))
    await put_file(store)
    async with delivering(store, platform):
        await until(store, "sent")
    assert platform.files == [("a.csv", b"1,2")]


async def test_an_upload_of_unknown_outcome_is_not_repeated(store: Store) -> None:
    platform = FilePlatform()
    platform.upload_fails.append(OutcomeUnknown("no answer"))
    await put_file(store)
    async with delivering(store, platform):
        await until(store, "unknown")
    assert platform.files == []
    assert platform.shown == []
