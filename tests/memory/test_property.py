"""B17: whatever a session holds and whatever the limits are, what is sent is legal and fits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawbot.agent.prompt import for_request
from clawbot.agent.steps import group
from clawbot.agent.window import Fitted, Room, TooLarge, fit
from clawbot.history import Entry, EntryKind, ModelRequest, ToolSpec
from tests.memory.histories import (
    call,
    note,
    numbered,
    result,
    said,
    step,
    thought,
    thought_first,
    user,
    weights,
)
from tests.unit.agent.bodies import BodyWriter, body_writers

READ_FILE = ToolSpec(
    name="read_file",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)
MARK, THOUGHT = "CURRENT-MESSAGE", "THOUGHT-FIRST"
LEVELS = st.sampled_from([None, "off", "low", "high"])

TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", " ", "\x00", "\ud800", "ok", "中文句子", "a\r\nb", "\N{GRINNING FACE}"]),
    st.builds(
        lambda piece, times: piece * times,
        st.text(min_size=1, max_size=6),
        st.sampled_from([1, 40, 900]),
    ),
    st.sampled_from(["line of a log\n" * 800, "测试" * 2000, "x" * 9000, " " * 9000]),
)
ARGUMENTS = st.one_of(
    st.builds(lambda text: json.dumps({"path": "a", "content": text}), TEXTS),
    st.sampled_from(["", "{", "[1, 2]", '{"a": NaN}', '{"a": ' + "[" * 300]),
)
IDS = st.one_of(st.sampled_from(["", "a", "call_1", "功能", "x" * 70]), st.text(max_size=3))


@st.composite
def turns(draw: st.DrawFn, name: str) -> list[Entry]:
    """One turn: messages, steps with parallel calls, and perhaps a crash in the middle."""
    entries = [note(draw(TEXTS), name)] if draw(st.booleans()) else []
    entries += [user(draw(TEXTS), name) for _ in range(draw(st.integers(1, 2)))]
    if draw(st.booleans()):
        entries.append(thought_first(f"{THOUGHT} {draw(TEXTS)}", name))
    for number in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            entries.append(thought(draw(TEXTS), name, number, draw(st.sampled_from(["", "0:s"]))))
        if draw(st.booleans()):
            entries.append(said(draw(TEXTS), name, number))
        ids = [draw(IDS) for _ in range(draw(st.integers(0, 3)))]
        entries += [call(each, name, number, arguments=draw(ARGUMENTS)) for each in ids]
        crash = draw(st.integers(0, 9))
        kept = ids if crash else ids[: len(ids) // 2]
        entries += [result(each, draw(TEXTS), name, number) for each in draw(st.permutations(kept))]
        if not crash:
            break
    if draw(st.integers(0, 4)) == 0:
        entries.append(result("unknown", "stray", name))
    return entries


@st.composite
def histories(draw: st.DrawFn) -> list[Entry]:
    """Some earlier turns, and the one that runs."""
    entries = [
        entry for number in range(draw(st.integers(0, 4))) for entry in draw(turns(f"old{number}"))
    ]
    current = [user(f"{MARK} {draw(TEXTS)}"), *draw(turns("now"))]
    return numbered([*entries, *current])


@pytest.fixture(scope="module")
def writers() -> Iterator[dict[str, BodyWriter]]:
    with body_writers() as made:
        yield made


@settings(
    max_examples=120,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    history=histories(),
    messages=st.sampled_from([-1, 0, 1, 3, 6, 20, 1000]),
    tokens=st.sampled_from([400, 800, 2000, 6000, 1_000_000]),
    kept_from=st.sampled_from([0, 0, 5, 30]),
    sends_thinking=st.booleans(),
    thinking=LEVELS,
    may_use_tools=st.booleans(),
)
def test_B17_every_request_is_legal_and_fits_and_holds_the_current_message(
    writers: dict[str, BodyWriter],
    history: list[Entry],
    messages: int,
    tokens: int,
    kept_from: int,
    *,
    sends_thinking: bool,
    thinking: str | None,
    may_use_tools: bool,
) -> None:
    room = Room(turn_id="now", tokens=tokens, surely=-1, messages=messages, kept_from=kept_from)
    before = list(history)
    try:
        found = fit(history, room, weights(sends_thinking=sends_thinking))
    except TooLarge:
        return  # nothing is sent, and a person is told
    assert history == before
    assert found == fit(history, room, weights(sends_thinking=sends_thinking))
    assert found.tokens <= tokens
    assert weights(sends_thinking=sends_thinking).units(group(found.entries)) == found.tokens
    assert any(
        entry.kind is EntryKind.USER and MARK in entry.text and entry.turn_id == "now"
        for entry in found.entries
    )
    if messages > 0:
        older = [entry for entry in found.entries if entry.turn_id != "now"]
        assert len(older) <= messages
    check_thoughts(found, history)
    request = ModelRequest(
        system="Be brief.",
        entries=for_request(found.entries),
        tools=(READ_FILE,),
        max_output_tokens=4096,
        thinking=thinking,
        may_use_tools=may_use_tools,
    )
    for writer in writers.values():
        body = writer.body(request)
        assert writer.violations(body) == []
        text = json.dumps(body)
        assert MARK in text
        assert text.count(THOUGHT) == sum(THOUGHT in entry.text for entry in found.entries)
        assert bool(body.get("tool_choice")) or may_use_tools


def check_thoughts(found: Fitted, history: list[Entry]) -> None:
    """B11: the thinking of a call of its own is not doubled, and goes before anything else."""
    kept = [entry for entry in found.entries if entry.is_thought]
    assert len({entry.seq for entry in kept}) == len(kept)
    if found.tier:  # what is thought last may stay while the turn has not acted on it yet
        acts = {EntryKind.ASSISTANT, EntryKind.TOOL_CALL}  # a stray result is no act
        acted = any(entry.kind in acts for entry in history if entry.turn_id == "now")
        assert not (acted and any(entry.turn_id == "now" for entry in kept))


@settings(max_examples=40)
@given(history=histories(), texts=st.lists(TEXTS, min_size=1, max_size=3))
def test_W_what_was_sent_begins_the_next_request_until_a_cut(
    writers: dict[str, BodyWriter], history: list[Entry], texts: list[str]
) -> None:
    """Caches compare prefixes: a step more may only add to the end."""
    writer = writers["openai-chat"]
    room = Room(turn_id="now", tokens=1_000_000, surely=-1, messages=0)
    grown = [*history, *step(90, *(text or "-" for text in texts))]
    before, after = (
        _messages(writer, fit(entries, room, weights()).entries)
        for entries in (_settled(history), _settled(grown, like=history))
    )
    assert after[: len(before)] == before


def _settled(entries: list[Entry], like: list[Entry] | None = None) -> list[Entry]:
    """With a last word of the user's side, so that no neighbour is merged with what follows."""
    base = entries if like is None else like
    return [*base, user("settled"), *entries[len(base) :]]


def _messages(writer: BodyWriter, entries: tuple[Entry, ...]) -> list[dict[str, Any]]:
    request = ModelRequest(system="Be brief.", entries=for_request(entries), tools=(READ_FILE,))
    messages: list[dict[str, Any]] = writer.body(request)["messages"]
    return messages
