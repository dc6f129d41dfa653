"""`python -m fungrad` is the command `fungrad`. Knows nothing else."""

from fungrad.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
