"""How fast a message travels, and what clawbot adds to it.

`python -m tests.bench` sends the same messages through the daemon (`clawbot run`: real processes,
SQLite, every message durable) and through a bare pipeline that keeps nothing (receive, one model
call through the same SDK, post), in the same run on the same machine, in front of the same
simulated model, and compares them. `load` plays the chat platform for both.
"""
