"""The Feishu simulator, proven with the real SDK and on its own."""
