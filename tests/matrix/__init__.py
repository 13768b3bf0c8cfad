"""The kill matrix: every kind of process killed at every point of a message's path, in front of
every platform, on both stores. `python -m tests.kill_matrix` runs it; `tests/process` a short form.
"""
