"""What every test of runs that are hurt stands on."""

import pytest
from training_runs import Run


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leaves these tests to one worker of pytest-xdist: two beside each other fight for the processors, and the
    processes of each wait for each other, many times longer than one after the other.
    """
    item.add_marker(pytest.mark.xdist_group("system"))


@pytest.fixture(autouse=True)
def no_process_outlives_its_test():
    """Ends what a test that failed has left running."""
    yield
    while Run.begun:
        Run.begun.pop().kill()
