"""Chat commands: recognised before any queue, so that they work while a turn runs."""
