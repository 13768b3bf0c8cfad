"""Sessions as people keep them: opened, renamed, forked, exported, deleted; seeded; durable."""
