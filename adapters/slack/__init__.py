"""Slack: Socket Mode or signed HTTP in, Web API out."""
