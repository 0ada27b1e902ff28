"""Transformers' common tests of tensor parallelism and of FSDP, run with TinySeq in two processes on the CPU."""

import functools
import unittest
from unittest import mock

import upstream

upstream.need("test_tensor_parallel_mixin")
upstream.need("test_fsdp_mixin")

import tests.test_fsdp_mixin as fsdp  # noqa: E402
import tests.test_tensor_parallel_mixin as tensor_parallel  # noqa: E402
import torch  # noqa: E402
from seq2seq_tester import TinySeqTester  # noqa: E402
from transformers import AutoModelForSeq2SeqLM  # noqa: E402

from tinyseq import TinySeqForConditionalGeneration, TinySeqModel  # noqa: E402


class RecitingModel(TinySeqForConditionalGeneration):
    """Takes the source for the target too where none is given, as the tests call models with one text only."""

    def forward(self, input_ids=None, decoder_input_ids=None, labels=None, **kwargs):
        if decoder_input_ids is None and labels is None:
            decoder_input_ids = input_ids
        return super().forward(input_ids, decoder_input_ids=decoder_input_ids, labels=labels, **kwargs)


class TinySeqTensorParallelTest(tensor_parallel.TensorParallelTesterMixin, unittest.TestCase):
    model_tester = TinySeqTester()
    all_model_classes = (TinySeqModel, TinySeqForConditionalGeneration)

    def _get_tp_model_class(self):
        return RecitingModel

    def _skip_if_tp_distributed_not_enabled(self):
        pass


class TinySeqFSDPTest(fsdp.FSDPTesterMixin, unittest.TestCase):
    model_tester = TinySeqTester()

    def _skip_if_fsdp_distributed_not_enabled(self):
        pass

    def _run_fsdp2_distributed_test(self, test_name, test_impl, *args, **kwargs):
        super()._run_fsdp2_distributed_test(test_name, functools.partial(as_seq2seq, test_impl), *args, **kwargs)


def as_seq2seq(test_impl, rank, *args, **kwargs):
    """Runs `test_impl`, in one of its processes, with the Auto class that knows encoder-decoders.

    And with an Adam that takes rounding for nothing: the gradient of a key's bias, which TinySeq has and the models
    that the library runs this with have not, is zero but for rounding, and Adam would make whole steps of it.
    """
    with (
        mock.patch.object(fsdp, "AutoModelForCausalLM", AutoModelForSeq2SeqLM),
        mock.patch.object(torch.optim, "Adam", functools.partial(torch.optim.Adam, eps=1e-4)),
    ):
        test_impl(rank, *args, **kwargs)
