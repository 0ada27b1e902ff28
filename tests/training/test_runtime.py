"""The process: memory is kept, versions are noted."""

import platform
import subprocess
import sys

import pytest
import torch

from tinyseq.training.runtime import versions

PAGE_FAULTS = """
import resource, sys, torch
from tinyseq.training.runtime import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
faults = []
for mebibytes in range(40, 34, -1):  # each fits where the one before was freed, whatever small things lie beside it
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(mebibytes * 2**18)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(sum(faults[1:]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator can be told to keep memory")
def test_a_tensor_that_fits_where_one_was_freed_gets_its_pages():
    def page_faults(how):
        command = [sys.executable, "-c", PAGE_FAULTS, how]
        return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)

    assert page_faults("default") > 1000  # 185 MiB in pages of 4 KiB, or of up to 128 KiB
    assert page_faults("keep") < 100


def test_versions_name_python_torch_and_transformers():
    found = versions()
    assert found["python"] == platform.python_version()
    assert found["torch"] == torch.__version__.split("+")[0] or found["torch"] == torch.__version__
    assert {"tinyseq", "transformers", "tokenizers", "accelerate", "datasets", "sacrebleu"} <= found.keys()
