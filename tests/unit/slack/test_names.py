"""What is remembered of names, and for how long."""

from adapters.slack.names import NameCache


class HandClock:
    def __init__(self) -> None:
        self.time_s = 0.0

    def now_ms(self) -> int:
        return int(self.time_s * 1000)

    def monotonic(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.time_s += seconds


def test_a_name_is_kept_for_hours_and_a_failure_for_a_minute() -> None:
    clock = HandClock()
    names = NameCache(clock)
    names.remember("U1", "alice")
    names.remember("U2", "")
    clock.time_s = 59
    assert (names.get("U1"), names.get("U2")) == ("alice", "")
    clock.time_s = 61
    assert (names.get("U1"), names.get("U2")) == ("alice", None)
    clock.time_s = 6 * 3600 + 1
    assert names.get("U1") is None


def test_the_oldest_names_make_room() -> None:
    names = NameCache(HandClock(), max_names=2)
    for key in ("U1", "U2", "U3"):
        names.remember(key, key.lower())
    assert dict(names) == {"U2": "u2", "U3": "u3"}


def test_a_name_that_changes_takes_no_second_place() -> None:
    names = NameCache(HandClock(), max_names=2)
    names.remember("U1", "alice")
    names.remember("U2", "bob")
    names.remember("U2", "robert")
    assert dict(names) == {"U1": "alice", "U2": "robert"}
