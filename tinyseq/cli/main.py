# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The command line: `tinyseq translate | evaluate | attend | trace | heads | prune | corpus | average | card | push`.

Standard output carries the result and nothing else, as UTF-8 whatever the locale; progress, warnings and errors go to
standard error. What the user can put right is one line and exit code 2, never a traceback.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from . import attention, corpus, models, translate
from .common import one_line

EXIT_ERROR, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 2, 130, 141  # the last two as a shell counts SIGINT and SIGPIPE


def main(arguments: Sequence[str] | None = None, prepare: Callable[[], object] = lambda: None) -> int:
    """Runs a command and returns its exit code; `prepare` is called before, once the command line was understood."""
    options = make_parser().parse_args(arguments)
    try:
        prepare()
        options.run(options)
        sys.stdout.flush()
        return 0
    except BrokenPipeError:  # whoever read our output has had enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the flush at exit does not fail too
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        print("tinyseq: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (ValueError, OSError, ImportError) as error:
        print(f"tinyseq: error: {one_line(error)}", file=sys.stderr)
        return EXIT_ERROR


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser; each command leaves its function in `run`."""
    parser = argparse.ArgumentParser(
        prog="tinyseq",
        description="Translate with small encoder-decoder models, score them, and look inside them. `train.py` trains "
        "them.",
        epilog="`tinyseq COMMAND --help` shows the options of a command, with examples.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for group in (translate, attention, corpus, models):
        group.add_commands(commands)
    return parser
