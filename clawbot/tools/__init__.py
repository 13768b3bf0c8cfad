"""What the agent can do: one file a tool, and the registry that calls them."""
