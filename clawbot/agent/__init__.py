"""The agent: what it is told, the loop it runs, the models it speaks to."""
