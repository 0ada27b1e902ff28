# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""The command `tinyseq`: one thin file for each group of commands."""
