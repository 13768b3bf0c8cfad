"""Traces: what a turn did, as a tree of spans, for a collector or as files.

`spans` has the values and how the code that runs finds its own span, `names` what each kind of span
tells, `tracer` the trace of one turn, `files` and `otlp` where traces go. Off, nothing is recorded:
code that asks for its span is told that there is none.
"""
