"""Clauses of sending: once, whole, and honest about what became of it."""

from __future__ import annotations

import pytest

from clawbot.errors import NotSent, OutcomeUnknown, Rejected, SendError
from clawbot.messages import Choice, MessageRef, OutboundFile
from clawbot.ports import ChannelAdapter, Editor, Lookup, Typing, Uploader
from clawbot.splitting import split
from tests.contracts.adapters.ground import Ground, Trouble, again, part_on

LONG = "你好 😀 word & <tag> e\u0301 — " * 5000
DATA = b"a,b\n1,2\n"
FILE = OutboundFile(name="report.csv", mime="text/csv", size_bytes=len(DATA), blob="x")
CHOICES = (
    Choice(label="Approve", command="/approve 1a2b"),
    Choice(label="No", command="/deny 1a2b"),
)


class SendingClauses:
    """What the core may rely on when it has something for a chat."""

    async def test_a_part_stands_in_its_chat_once(self, ground: Ground) -> None:
        async with ground.opened() as adapter:
            ref = await adapter.send(part_on(ground, "hello"))
        assert ground.shown() == ["hello"]
        assert ref.id

    async def test_the_largest_part_is_taken_whole(self, ground: Ground) -> None:
        async with ground.opened() as adapter:
            most = adapter.limits.max_size
            assert most > 0
            text = split(LONG, most, adapter.measure)[0].rstrip()
            assert most * 0.9 < adapter.measure(text) <= most
            await adapter.send(part_on(ground, text))
        (shown,) = ground.shown()
        assert shown.split() == text.split()

    async def test_a_size_grows_with_its_text(self, ground: Ground) -> None:
        async with ground.opened() as adapter:
            sizes = [adapter.measure(LONG[:length]) for length in range(400)]
        assert sizes == sorted(sizes)
        assert sizes[0] == 0
        assert sizes[-1] > 0

    @pytest.mark.parametrize("trouble", ["busy", "refused", "lost"])
    async def test_a_failure_says_whether_it_may_be_there_and_nothing_is_repeated(
        self, ground: Ground, trouble: Trouble
    ) -> None:
        means: dict[Trouble, type[SendError]] = {
            "busy": NotSent,
            "refused": Rejected,
            "lost": OutcomeUnknown,
        }
        async with ground.opened() as adapter:
            await adapter.check()
            ground.trouble_next(trouble)
            with pytest.raises(means[trouble]):
                await adapter.send(part_on(ground, "hello"))
        assert ground.tries() == 1
        assert ground.shown() == (["hello"] if trouble == "lost" else [])

    async def test_in_doubt_a_part_is_found_or_sent_again_and_stands_once(
        self, ground: Ground
    ) -> None:
        async with ground.opened() as adapter:
            part = part_on(ground, "once")
            ground.trouble_next("lost")
            with pytest.raises(OutcomeUnknown):
                await adapter.send(part)
        async with ground.opened() as another:  # the process that takes it over
            await another.check()
            if another.limits.has_idempotency_keys:
                await another.send(again(part))
            elif isinstance(another, Lookup):
                assert await another.lookup(again(part)) is not None
                assert await another.lookup(part_on(ground, "never", key="clawbot-2-0-1")) is None
        assert ground.shown() == ["once"]

    async def test_a_part_that_can_be_changed_is_replaced_as_a_whole(self, ground: Ground) -> None:
        async with ground.opened() as adapter:
            assert isinstance(adapter, Editor) == (adapter.limits.edit_interval_s > 0)
            if not isinstance(adapter, Editor):
                return
            ref = await adapter.send(part_on(ground, "half", is_final=False))
        async with ground.opened() as another:
            assert isinstance(another, Editor)
            for _ in range(2):
                await another.edit(MessageRef(id=ref.id), part_on(ground, "half and half"))
        assert ground.shown() == ["half and half"]

    async def test_a_file_arrives_with_its_name_and_its_bytes(self, ground: Ground) -> None:
        async with ground.opened() as adapter:
            assert takes_files(adapter) == (adapter.limits.max_file_bytes > 0)
            if not isinstance(adapter, Uploader) or not takes_files(adapter):
                return
            ref = await adapter.upload(part_on(ground, "no file", file=FILE), DATA)
        assert ref.id
        assert ground.files() == [(FILE.name, DATA)]
        assert ground.shown() == []

    async def test_choices_never_take_a_text_away(self, ground: Ground) -> None:
        async with ground.opened() as adapter:
            await adapter.send(part_on(ground, "May I?", choices=CHOICES))
        (shown,) = ground.shown()
        assert shown.startswith("May I?")

    async def test_a_sign_of_typing_never_raises(self, ground: Ground) -> None:
        async with ground.opened() as adapter:
            if isinstance(adapter, Typing):
                for active in (True, True, False, False):
                    await adapter.typing(ground.route(), active=active)
            await adapter.send(part_on(ground, "hello"))
        assert ground.shown() == ["hello"]

    async def test_what_a_model_may_write_is_sent_all_the_same(self, ground: Ground) -> None:
        async with ground.opened() as adapter:
            await adapter.send(part_on(ground, "a ]]> b\u200b\ufeff \x0b\x1b[2K & <at> c"))
        (shown,) = ground.shown()
        assert shown.startswith("a ]]> b")
        assert shown.endswith("c")

    async def test_closing_twice_is_closing(self, ground: Ground) -> None:
        async with ground.opened() as adapter:
            await adapter.close()
            await adapter.close()


def takes_files(adapter: ChannelAdapter) -> bool:
    """Whether the adapter says that it can send files on this account."""
    return isinstance(adapter, Uploader) and adapter.limits.max_file_bytes > 0
