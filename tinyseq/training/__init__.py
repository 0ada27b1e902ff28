# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""A training run: its options, data, model, schedule, checkpoints and processes; `train.py` is the loop."""
