"""Transformers' common tests of tokenizers, run with TinySeq tokenizers of both algorithms."""

import shutil
import tempfile
import unittest
from contextlib import contextmanager
from unittest import mock

import upstream

upstream.need("test_tokenization_common")

from tests.test_tokenization_common import TokenizerTesterMixin  # noqa: E402
from tests.test_tokenizers_backend_mixin import TokenizersBackendTesterMixin  # noqa: E402

from tinyseq import TinySeqTokenizer  # noqa: E402
from tinyseq.tokenization_tinyseq import SPACE  # noqa: E402

TEXTS = [
    "Wonderful is no inspiration, but an example with a subtoken may be one.",
    "This is the first sentence, and this is a test of the second one.",
    "A sample sentence to be encoded: hello, how are you doing, and what was true in 92000?",
    "Nobody in the village could say who had built the lighthouse at the end of the pier.",
]


class TinySeqTokenizerCommonTests(TokenizerTesterMixin, TokenizersBackendTesterMixin):
    tokenizer_class = rust_tokenizer_class = TinySeqTokenizer
    algorithm: str

    @classmethod
    def setUpClass(cls):
        cls.from_pretrained_id = tempfile.mkdtemp()
        tokenizer = TinySeqTokenizer.train(TEXTS, vocab_size=400, algorithm=cls.algorithm)
        tokenizer.save_pretrained(cls.from_pretrained_id)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        for folder in cls.from_pretrained_id:
            shutil.rmtree(folder, ignore_errors=True)

    def test_tokenize_special_tokens(self):
        tokenizer = self.get_tokenizer(split_special_tokens=False)
        with mock.patch.object(type(self), "get_tokenizer", return_value=tokenizer):
            super().test_tokenize_special_tokens()

    def test_training_new_tokenizer(self):
        with self.pieces_compared_as_text():
            super().test_training_new_tokenizer()

    def test_training_new_tokenizer_with_special_tokens_change(self):
        with self.pieces_compared_as_text():
            super().test_training_new_tokenizer_with_special_tokens_change()

    @contextmanager
    def pieces_compared_as_text(self):
        """Within this, `assertEqual` takes the mark of a space for a space."""

        compare = self.assertEqual

        def assert_equal(first, second, msg=None):
            first, second = (x.replace(SPACE, " ") if isinstance(x, str) else x for x in (first, second))
            compare(first, second, msg)

        with mock.patch.object(self, "assertEqual", assert_equal):
            yield


class UnigramTokenizerTest(TinySeqTokenizerCommonTests, unittest.TestCase):
    algorithm = "unigram"


class BPETokenizerTest(TinySeqTokenizerCommonTests, unittest.TestCase):
    algorithm = "bpe"
