"""Clauses of receiving: nothing is acknowledged that was not stored, and nothing is changed."""

from __future__ import annotations

import asyncio

import pytest

from clawbot.errors import ChannelBroken, StartupError
from clawbot.messages import ChatType, InboundMessage
from clawbot.ports import HealthReporter, PayloadReader
from tests.contracts.adapters.ground import Ground, Recorder, distinct, part_on, until

TEXT = "hello & <welcome> 你好 😀"


class ReceivingClauses:
    """What the core may rely on when a platform has something for us."""

    async def test_a_message_is_acknowledged_once_it_is_stored_and_not_before(
        self, ground: Ground
    ) -> None:
        recorder = Recorder(gate=asyncio.Event())
        assert recorder.gate is not None
        async with ground.opened() as adapter, ground.receiving(adapter, recorder):
            await ground.say(TEXT)
            await until(lambda: recorder.offered)
            await asyncio.sleep(0.05)  # time in which a hasty one would have acknowledged
            assert ground.acknowledged() == 0
            recorder.gate.set()
            await until(ground.acknowledged)
            await until(lambda: not ground.unacknowledged())
        assert [message.text for message in recorder.messages] == [TEXT]

    async def test_what_was_not_stored_comes_again_as_the_same_message(
        self, ground: Ground
    ) -> None:
        recorder = Recorder(refusals=1)
        async with ground.opened() as adapter, ground.receiving(adapter, recorder):
            await ground.say(TEXT)
            await until(lambda: recorder.messages)
            await until(lambda: not ground.unacknowledged())
        assert len(recorder.offered) == 2
        assert len(distinct(recorder.offered)) == 1

    async def test_a_message_says_who_said_what_where(self, ground: Ground) -> None:
        recorder = Recorder()
        async with ground.opened() as adapter, ground.receiving(adapter, recorder):
            await ground.say(TEXT)
            await ground.say("!help me")
            await until(lambda: len(recorder.messages) == 2)
        first, second = sorted(recorder.messages, key=lambda message: message.text != TEXT)
        assert (first.channel, first.chat_id) == (ground.channel, ground.chat_id)
        assert (first.chat_type, first.sender.id) == (ChatType.DM, ground.person)
        assert (first.text, first.command_text) == (TEXT, TEXT)
        assert not first.sender.is_bot
        assert first.identity
        assert first.raw
        assert second.command_text == "!help me"
        assert len(distinct(recorder.messages)) == 2

    async def test_what_was_received_can_be_read_again(self, ground: Ground) -> None:
        recorder = Recorder()
        async with ground.opened() as adapter:
            async with ground.receiving(adapter, recorder):
                await ground.say(TEXT)
                await until(lambda: recorder.messages)
            assert isinstance(adapter, PayloadReader)
            (message,) = recorder.messages
            read = adapter.read_payload({}, message.raw.encode())
        assert isinstance(read, InboundMessage)
        assert (read.identity, read.chat_id) == (message.identity, message.chat_id)
        assert (read.sender.id, read.text) == (message.sender.id, message.text)

    async def test_our_own_words_are_not_heard(self, ground: Ground) -> None:
        recorder = Recorder()
        async with ground.opened() as adapter, ground.receiving(adapter, recorder):
            await ground.say("first")
            await until(lambda: recorder.messages)
            await adapter.send(part_on(ground, "an answer"))
            await ground.say("second")
            await until(lambda: len(recorder.messages) >= 2)
            await until(lambda: not ground.unacknowledged())
        assert [message.text for message in recorder.messages] == ["first", "second"]

    async def test_what_nobody_understands_disturbs_nobody(self, ground: Ground) -> None:
        recorder = Recorder()
        async with ground.opened() as adapter, ground.receiving(adapter, recorder) as task:
            await ground.disturb()
            await ground.say(TEXT)
            await until(lambda: recorder.messages)
            assert not task.done()
        assert [message.text for message in recorder.messages] == [TEXT]

    async def test_who_we_are_is_proved_at_the_start(self, ground: Ground) -> None:
        async with ground.opened() as adapter:
            assert (await adapter.check()).state in {"up", "connecting"}
        async with ground.opened(secret_is_wrong=True) as adapter:
            with pytest.raises((ChannelBroken, StartupError)) as caught:
                await adapter.check()
        assert ground.channel in str(caught.value)

    async def test_health_is_that_of_the_connection(self, ground: Ground) -> None:
        async with ground.opened() as adapter:
            assert isinstance(adapter, HealthReporter)
            assert adapter.health().state != "up"
            async with ground.receiving(adapter, Recorder()):
                assert adapter.health().state == "up"

    async def test_an_end_leaves_nothing_behind(self, ground: Ground) -> None:
        before = asyncio.all_tasks()
        recorder = Recorder()
        async with ground.opened() as adapter:
            async with ground.receiving(adapter, recorder):
                await ground.say(TEXT)
                await until(lambda: recorder.messages)
            await adapter.close()
        await until(lambda: not _ours(asyncio.all_tasks() - before))


def _ours(tasks: set[asyncio.Task[object]]) -> list[str]:
    """The tasks that run code of the adapters."""
    return [
        task.get_name()
        for task in tasks
        if any("/adapters/" in frame.f_code.co_filename for frame in task.get_stack())
    ]
