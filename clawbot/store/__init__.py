"""Durable state: the database is the bus between processes, and the only one."""
