"""The clawbot daemon: sessions, routing, durable turns and delivery; no platform code."""
