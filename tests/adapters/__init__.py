"""Each adapter against its platform's simulator, over real sockets."""
