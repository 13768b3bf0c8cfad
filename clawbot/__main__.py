"""`python -m clawbot` is the `clawbot` command; so the supervisor starts its children."""

from clawbot.cli import main

if __name__ == "__main__":
    main()
