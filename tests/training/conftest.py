"""What every test of a training run stands on."""

from training_runs import no_process_outlives_its_test  # noqa: F401
