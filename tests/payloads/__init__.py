"""Recorded payloads of the platforms, pushed through the adapters as they are.

`python -m tests.payloads slack ROWS.jsonl > RESULTS.jsonl`; the rows are explained in README.md and
`score.py ROWS RESULTS --choices choices.json` judges the results. `runner` does what is the same
for all platforms; `platforms` says what each one's module must offer.
"""
