"""`python -m bottega`: the command line, for whoever starts it as a module, as torchrun does."""

from bottega.app.cli import main

if __name__ == "__main__":
    main()
