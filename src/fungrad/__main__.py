"""`python -m fungrad` is the command `fungrad`."""

from fungrad.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
