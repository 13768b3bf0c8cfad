"""Session keys: no two conversations share a text, no two texts name one conversation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.errors import InvalidSessionKey
from clawbot.session_key import RESERVED_CHANNELS, SessionKey, escape_id, unescape_id

# Any text a platform may send, lone surrogates too, and often the characters of the grammar itself.
TEXTS = st.text(
    st.characters(exclude_categories=()) | st.sampled_from("/:%Aa_-.@+ \\\0é中😀\ud800\udc00"),
    min_size=1,
    max_size=12,
)
OPTIONAL = st.none() | TEXTS
CHANNELS = TEXTS.filter(lambda name: name not in RESERVED_CHANNELS)
BASES = st.one_of(
    st.just(SessionKey.of_global()),
    TEXTS.map(SessionKey.of_directory),
    st.builds(
        lambda channel, chat, thread, user: SessionKey.of_chat(
            channel, chat, thread=thread, user=user
        ),
        *(CHANNELS, TEXTS, OPTIONAL, OPTIONAL),
    ),
)
KEYS = st.builds(SessionKey.with_task, BASES, OPTIONAL)
PIECES = st.sampled_from(
    [
        "global",
        "task",
        "dir",
        "thread",
        "user",
        ":",
        "/",
        "a",
        "A",
        "%41",
        "%2F",
        "%2f",
        "%ED%A0%80",
    ]
)
NEARLY_KEYS = st.lists(PIECES, max_size=9).map("".join)


@given(TEXTS)
def test_any_id_survives_its_escaping(value: str) -> None:
    escaped = escape_id(value)
    assert unescape_id(escaped) == value
    assert escaped.isascii()
    assert not set(escaped) & set("/: \\\0")


@given(KEYS)
def test_any_key_survives_its_text(key: SessionKey) -> None:
    assert SessionKey.parse(str(key)) == key


@given(KEYS, KEYS)
def test_different_keys_have_different_texts_and_digests(one: SessionKey, two: SessionKey) -> None:
    assert (one == two) == (str(one) == str(two)) == (one.digest == two.digest)


@given(NEARLY_KEYS | st.text(max_size=20))
def test_a_text_is_a_keys_one_spelling_or_none(text: str) -> None:
    try:
        key = SessionKey.parse(text)
    except InvalidSessionKey:
        return
    short = {"": "global"}.get(text, f"global/{text}" if text.startswith("task:") else text)
    assert str(key) == short


@given(KEYS)
def test_a_sub_session_stands_beside_its_base(key: SessionKey) -> None:
    assert key.base.task is None
    assert key.base.with_task(key.task) == key
    assert key.base.base == key.base


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("global", SessionKey.of_global()),
        ("feishu:oc_a1", SessionKey.of_chat("feishu", "oc_a1")),
        ("wechat:oOpenId", SessionKey.of_chat("wechat", "oOpenId")),
        (
            "slack:C12/thread:1700000000.000100",
            SessionKey.of_chat("slack", "C12", thread="1700000000.000100"),
        ),
        ("feishu:oc_a1/task:42", SessionKey.of_chat("feishu", "oc_a1").with_task("42")),
        (
            "ops:C1/thread:T/user:U/task:7",
            SessionKey.of_chat("ops", "C1", thread="T", user="U").with_task("7"),
        ),
        ("dir:%2Fhome%2Fme%2Fa%20b", SessionKey.of_directory("/home/me/a b")),
        ("global/task:42", SessionKey.of_global().with_task("42")),
    ],
)
def test_a_key_is_written_as_the_grammar_says(text: str, key: SessionKey) -> None:
    assert str(key) == text
    assert SessionKey.parse(text) == key


@pytest.mark.parametrize("text", [None, "", "global"])
def test_no_key_and_an_empty_one_are_the_global_session(text: str | None) -> None:
    assert SessionKey.parse(text).is_global


def test_a_bare_task_is_one_of_the_global_session() -> None:
    assert SessionKey.parse("task:42") == SessionKey.of_global().with_task("42")
    assert not SessionKey.parse("task:42").is_global


def test_digests_differ_where_file_names_would_be_the_same() -> None:
    ids = [
        "feishu:a",
        "feishu_a",
        "a/b",
        "a\\b",
        "A",
        "a",
        "x" * 300,
        "😀",
        "../x",
        "a ",
        "é",
        "e\u0301",
    ]
    keys = [SessionKey.of_chat("feishu", one) for one in ids]
    keys += [SessionKey.of_chat("feishu", "a", thread="b"), SessionKey.of_chat("Feishu", "a")]
    names = {key.digest.casefold() for key in keys}
    assert len(names) == len(keys)
    assert all(len(name) == 32 and name.isalnum() for name in names)


@pytest.mark.parametrize(
    "text",
    [
        "Global",
        "global:x",
        "chat",
        "chat:",
        ":x",
        "chat:x/",
        "chat:x//task:1",
        "chat:x/topic:1",
        "chat:x/thread:",
        "chat:x/user:U/thread:T",
        "chat:x/thread:1/thread:2",
        "chat:x/task:1/task:2",
        "task:1/thread:2",
        "task:",
        "dir:",
        "dir:a/thread:1",
        "global/thread:1",
        "chat:a b",
        "chat:é",
        "chat:%2f",
        "chat:%41",
        "chat:%C0%AF",
        "chat:%",
        "chat:%E4%B8",
        "chat:a:b",
        "chat:x\n",
        " global",
    ],
)
def test_a_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidSessionKey):
        SessionKey.parse(text)


@pytest.mark.parametrize(
    "parts",
    [
        {"channel": "chat"},
        {"chat_id": "x"},
        {"channel": "", "chat_id": "x"},
        {"channel": "global", "chat_id": "x"},
        {"channel": "task", "chat_id": "x"},
        {"channel": "dir", "chat_id": "x"},
        {"channel": "chat", "chat_id": ""},
        {"channel": "chat", "chat_id": "x", "thread": ""},
        {"channel": "chat", "chat_id": "x", "directory": "/a"},
        {"thread": "T"},
        {"user": "U"},
        {"directory": "/a", "user": "U"},
        {"directory": ""},
        {"task": ""},
    ],
)
def test_parts_that_make_no_key_are_refused(parts: dict[str, str]) -> None:
    with pytest.raises(InvalidSessionKey, match="session key"):
        SessionKey(**parts)
