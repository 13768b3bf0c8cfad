"""A simulated model provider that real SDKs connect to; see `ModelSimulator`.

async with ModelSimulator() as model:
    model.expect(Reply(text="hello"))
    ...  # the program under test calls model.base_url("openai-chat")
    model.assert_done()
"""

from .answer import (
    Answer,
    BreakOff,
    Refusal,
    Reply,
    ToolCall,
    Usage,
    invalid_key,
    overflow,
    rate_limited,
)
from .conversation import Call, Message, RecordedRequest, Result
from .rules import Strictness, Violation, violations
from .script import Gate, echo
from .server import ModelSimulator

__all__ = [
    "Answer",
    "BreakOff",
    "Call",
    "Gate",
    "Message",
    "ModelSimulator",
    "RecordedRequest",
    "Refusal",
    "Reply",
    "Result",
    "Strictness",
    "ToolCall",
    "Usage",
    "Violation",
    "echo",
    "invalid_key",
    "overflow",
    "rate_limited",
    "violations",
]
