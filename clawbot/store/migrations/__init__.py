"""Schema changes, applied in order by Alembic; see `clawbot.store.migrate`."""
