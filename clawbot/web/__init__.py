"""The web chat page: a small server, and plain HTML, CSS and modules that need no build."""
