"""What every test of runs that are hurt stands on."""

import pytest
from training_runs import Run


@pytest.fixture(autouse=True)
def no_process_outlives_its_test():
    """Ends what a test that failed has left running."""
    yield
    while Run.begun:
        Run.begun.pop().kill()
