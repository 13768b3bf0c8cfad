"""Flow tests: a message travels the whole path, through real SDKs over real sockets."""
