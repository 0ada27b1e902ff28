"""Transformers' common test of training: a small model learns one batch by heart and recites it."""

import unittest

import torch
import upstream

upstream.need("test_training_mixin")

from seq2seq_tester import TinySeqTester  # noqa: E402
from tests.test_training_mixin import TrainingTesterMixin  # noqa: E402

from tinyseq import TinySeqForConditionalGeneration  # noqa: E402


class Reciter(TinySeqForConditionalGeneration):
    """`generate()` in the form of a decoder-only model: a prompt goes in, the prompt and its continuation come out."""

    def generate(self, prompt, max_new_tokens, pad_token_id, eos_token_id, **kwargs):
        length = prompt.shape[1] + max_new_tokens
        source = TrainingTesterMixin._create_text_training_batch(None, 1, length, self.config.vocab_size)["input_ids"]
        begin = torch.full_like(prompt[:, :1], self.config.decoder_start_token_id)
        target = torch.cat([begin, prompt], dim=1)
        return super().generate(source, decoder_input_ids=target, max_new_tokens=max_new_tokens, **kwargs)[:, 1:]


class TrainingTester(TinySeqTester):
    hidden_size = 128


class TinySeqTrainingTest(TrainingTesterMixin, unittest.TestCase):
    # The test's text is made of the ids 1 to 19
    model_tester = TrainingTester(eos_token_id=0, pad_token_id=20, decoder_start_token_id=20)

    def _get_trainable_model_class(self):
        return Reciter
