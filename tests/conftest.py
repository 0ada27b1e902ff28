"""What every test stands on: no network, no user cache, the same seed, and a word about each test that cannot run.

The environment is set before anything imports Transformers, because its libraries read it once, on import.
"""

import atexit
import os
import shutil
import tempfile

_hf_home = tempfile.mkdtemp(prefix="tinyseq-tests-")
atexit.register(shutil.rmtree, _hf_home, ignore_errors=True)

# Each of these, where a user has set it, would win over HF_HOME.
for _name in ("HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_MODULES_CACHE", "HF_ASSETS_CACHE", "HF_TOKEN", "HF_TOKEN_PATH"):
    os.environ.pop(_name, None)
os.environ.update(
    HF_HOME=_hf_home,
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    MPLBACKEND="Agg",
)

import random  # noqa: E402
import sys  # noqa: E402

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)  # the models of the tests are too small to share: threads would only wait for each other


@pytest.fixture(autouse=True)
def seed() -> int:
    """The seed set before each test, so that a test gives the same result alone and among others."""
    value = 0
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)
    return value


@pytest.fixture(autouse=True)
def no_process_outlives_its_test():
    """Ends what a test that failed has left running."""
    yield
    runs = sys.modules.get("training_runs")  # where a test has imported it
    while runs and runs.Run.begun:
        runs.Run.begun.pop().kill()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked `gpu` where there is no CUDA device; `-ra` prints the reason."""
    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
