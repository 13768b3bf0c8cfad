"""What a `MessageRef` of Slack holds: enough to change the message from any process."""

from __future__ import annotations

from dataclasses import dataclass

_STREAM = "stream"
_FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A message that we sent. is_stream: it was begun as a stream and may still be one. file_id:
    the file that it holds; Slack does not say which ts its message got.
    """

    channel: str
    ts: str = ""
    is_stream: bool = False
    file_id: str = ""

    def encode(self) -> str:
        """As the text that the core keeps: `channel:ts`, with `:stream` behind a stream; or
        `channel:file id:file`.
        """
        if self.file_id:
            return f"{self.channel}:{self.file_id}:{_FILE}"
        return f"{self.channel}:{self.ts}" + (f":{_STREAM}" if self.is_stream else "")

    @classmethod
    def decode(cls, text: str) -> Reference:
        """Back from the text."""
        channel, _, rest = text.partition(":")
        name, _, form = rest.partition(":")
        if form == _FILE:
            return cls(channel=channel, file_id=name)
        return cls(channel=channel, ts=name, is_stream=form == _STREAM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The message that is answered, in the token of its reply route: what signs stand on, and for
    whom an answer is streamed.
    """

    ts: str = ""
    user_id: str = ""
    team_id: str = ""

    def encode(self) -> str:
        """As the token."""
        return f"{self.ts}:{self.user_id}:{self.team_id}"

    @classmethod
    def decode(cls, token: str | None) -> Asked:
        """Back from a token; empty for one of another kind."""
        if token is None or token.count(":") != 2:
            return cls()
        ts, user_id, team_id = token.split(":")
        return cls(ts=ts, user_id=user_id, team_id=team_id)
