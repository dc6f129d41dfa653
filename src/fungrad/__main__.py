"""`python -m fungrad` is the command `fungrad`. Knows nothing else."""

from fungrad.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
