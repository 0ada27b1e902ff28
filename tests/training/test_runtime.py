"""The process: memory is kept, versions are noted."""

import functools
import platform
import resource

import pytest
import torch
from training_runs import Run

from tinyseq.training.runtime import keep_freed_memory, versions


def count_page_faults(how):
    """Prints how often the system had to give pages while large tensors came and went."""
    if how == "keep":
        assert keep_freed_memory()
    faults = []
    for mebibytes in range(40, 34, -1):  # each fits where the one before was freed, whatever small lies beside it
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(mebibytes * 2**18)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    print(sum(faults[1:]), flush=True)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator can be told to keep memory")
def test_a_tensor_that_fits_where_one_was_freed_gets_its_pages(tmp_path):
    def page_faults(how):
        run = Run.of(functools.partial(count_page_faults, how), tmp_path / how)
        assert run.end() == [0], run.text
        return int(run.text)

    assert page_faults("default") > 1000  # 185 MiB in pages of 4 KiB, or of up to 128 KiB
    assert page_faults("keep") < 100


def test_versions_name_python_torch_and_transformers():
    found = versions()
    assert found["python"] == platform.python_version()
    assert found["torch"] == torch.__version__.split("+")[0] or found["torch"] == torch.__version__
    assert {"tinyseq", "transformers", "tokenizers", "accelerate", "datasets", "sacrebleu"} <= found.keys()
