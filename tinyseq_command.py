# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""Where the command `tinyseq` starts: beside the package, so that `--help` and a slip are answered at once.

Whatever is imported from a package, its `__init__` runs first. That of `tinyseq` registers with Transformers, which
waits seconds for PyTorch. Here the package is found but not yet run while its parser reads the command line; when
there is something to do it is run, and `tinyseq` is from then on what a plain `import tinyseq` makes of it.
"""

import sys
from importlib.util import find_spec, module_from_spec
from typing import Any


def main() -> int:
    """Runs the command that the command line asks for and returns its exit code."""
    spec: Any = find_spec("tinyseq")
    package = sys.modules.setdefault("tinyseq", module_from_spec(spec))

    from tinyseq.cli.main import main as read_and_run

    return read_and_run(prepare=lambda: spec.loader.exec_module(package))
