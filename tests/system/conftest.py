"""What every test of runs that are hurt stands on."""

from training_runs import no_process_outlives_its_test  # noqa: F401
