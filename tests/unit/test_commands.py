"""Chat commands: how they are written, and what is no command."""

import pytest

from clawbot.commands.answers import _TEXTS, answer
from clawbot.commands.grammar import NAMES, Command, parse


@pytest.mark.parametrize("mark", ["/", "!", "／", "！"])
@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_known_behind_every_mark(mark: str, name: str) -> None:
    assert parse(f"{mark}{name}") == Command(name=NAMES[name])
    assert parse(f"  {mark}{name.upper()} \n") == Command(name=NAMES[name])


@pytest.mark.parametrize(
    "text",
    ["stop", "Stop", "STOP", "停止", " stop ", "停止\n", "stop!", "Stop.", "停止。", "stop…"],
)
def test_stopping_needs_no_mark(text: str) -> None:
    assert parse(text) == Command(name="stop")


@pytest.mark.parametrize("text", ["stop all", "/stop all", "Stop all!", "全部停止", "停止全部。"])
def test_everything_is_stopped_by_its_own_words(text: str) -> None:
    assert parse(text) == Command(name="stop", words="all")


@pytest.mark.parametrize(
    "text",
    [
        *("cancel", "Cancel.", "abort", "stop it", "Stop, please!", "please stop"),
        *("停", "停下！", "停下来", "请停止", "取消", "取消。", "中止"),
    ],
)
def test_other_words_for_stopping_count_while_there_is_something_to_stop(text: str) -> None:
    assert parse(text) == Command(name="stop", only_if_busy=True)


@pytest.mark.parametrize(
    "text",
    [
        "stop the server",
        "stop?",
        "please stop the music",
        "cancel my flight",
        "cancelled",
        "don't stop",
        "stopp",
        "停止它",
        "不要停",
        "取消订单",
        "help",
        "new",
        "status",
        "approve",
        "帮助",
        "新对话",
    ],
)
def test_other_bare_words_are_plain_text(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "   ",
        "hello",
        "/",
        "!",
        "//stop",
        "/ stop",
        "!!stop",
        "/stopp",
        "/stop-it",
        "/etc/hosts",
        "/deploy now",
        "!important",
        "say /stop",
        "/help me with this",
        "/status of the order?",
        "\\stop",
    ],
)
def test_unknown_words_are_plain_text(text: str | None) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/new", Command(name="new")),
        ("/new tell me a joke", Command(name="new", words="tell me a joke")),
        ("！新对话  讲个笑话", Command(name="new", words="讲个笑话")),
        ("/new\nfirst line\nsecond line", Command(name="new", words="first line\nsecond line")),
        ("/stop all", Command(name="stop", words="all")),
    ],
)
def test_words_may_follow_where_they_mean_something(text: str, command: Command) -> None:
    assert parse(text) == command


@pytest.mark.parametrize(
    ("like", "expected"),
    [
        ("/stop", "Stopped."),
        ("!stop", "Stopped."),
        ("／stop", "Stopped."),
        ("停止", "已停止。"),
        ("/停止", "已停止。"),
        ("", "Stopped."),
    ],
)
def test_the_answer_is_in_the_language_of_the_command(like: str, expected: str) -> None:
    assert answer("stopped", like=like) == expected


def test_both_languages_of_an_answer_name_the_same_values() -> None:
    class Values(dict[str, object]):
        """Notes which values a text asks for."""

        def __missing__(self, key: str) -> str:
            self[key] = key
            return key

    for english, chinese in _TEXTS.values():
        asked = [Values(), Values()]
        english.format_map(asked[0])
        chinese.format_map(asked[1])
        assert asked[0].keys() == asked[1].keys()


def test_the_help_names_every_command_that_there_is() -> None:
    for like in ("help", "帮助"):
        text = answer("help", like=like)
        assert all(f"`/{name}" in text for name in set(NAMES.values()))
