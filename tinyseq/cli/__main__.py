# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""`python -m tinyseq.cli`: the command `tinyseq` by another name."""

import sys

from .main import main

sys.exit(main())
