"""The Slack simulator's own tests, driven by the real slack_sdk."""
