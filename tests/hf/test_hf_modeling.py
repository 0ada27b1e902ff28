"""Transformers' common tests of models, and of generation where the sources have them, run with TinySeq models."""

import unittest

import pytest
import upstream

upstream.need("test_modeling_common")

from seq2seq_tester import TinySeqTester  # noqa: E402
from tests.generation.test_utils import GenerationTesterMixin  # noqa: E402
from tests.test_configuration_common import ConfigTester  # noqa: E402
from tests.test_modeling_common import ModelTesterMixin  # noqa: E402

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, TinySeqModel  # noqa: E402


@pytest.mark.parametrize("file", ["exporters/test_export.py", "generation/test_utils.py"])
def test_the_sources_have_the_common_tests_in(file):
    if file in upstream.stood_in:
        pytest.skip(f"only a git checkout has tests/{file}: set {upstream.FOLDER_VARIABLE} to one to run its tests")


class TinySeqCommonTests(ModelTesterMixin, GenerationTesterMixin):
    all_model_classes = (TinySeqModel, TinySeqForConditionalGeneration)
    is_encoder_decoder = True
    options: dict = {}

    def setUp(self):
        self.model_tester = TinySeqTester(**self.options)
        self.config_tester = ConfigTester(self, config_class=TinySeqConfig, d_model=36)

    def test_capture_outputs_decorator(self):
        self.model_tester.attn_implementation = "eager"
        super().test_capture_outputs_decorator()

    def test_model_outputs_equivalence(self):
        self.model_tester.attn_implementation = "eager"
        super().test_model_outputs_equivalence()


class TinySeqModelTest(TinySeqCommonTests, unittest.TestCase):
    """The paper's design, which is the default: post-norm, sinusoidal positions, all embeddings tied."""

    def test_config(self):
        self.config_tester.run_common_tests()


class PreNormRotaryModelTest(TinySeqCommonTests, unittest.TestCase):
    options = {"normalize_before": True, "position_embedding_type": "rotary"}


class UntiedLearnedModelTest(TinySeqCommonTests, unittest.TestCase):
    options = {"tie_word_embeddings": False, "position_embedding_type": "learned", "scale_embedding": False}

    def test_inputs_embeds_matches_input_ids(self):
        self.model_tester.options = self.options | {"tie_word_embeddings": True}
        super().test_inputs_embeds_matches_input_ids()
