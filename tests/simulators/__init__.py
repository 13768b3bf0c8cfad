"""Stand-ins for the outside world that speak its own protocols over real sockets.

They know nothing of clawbot.
"""
