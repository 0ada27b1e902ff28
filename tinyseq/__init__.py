# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""tinyseq: small encoder-decoder Transformers for translation, native to Hugging Face.

Importing it makes ``AutoConfig``, ``AutoModel``, ``AutoModelForSeq2SeqLM`` and ``AutoTokenizer`` know "tinyseq", and
``pipeline("translate", model=...)`` a task of Transformers' pipelines.
"""

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.pipelines import PIPELINE_REGISTRY

from .configuration_tinyseq import TinySeqConfig
from .modeling_tinyseq import (
    TinySeqDecoder,
    TinySeqEncoder,
    TinySeqForConditionalGeneration,
    TinySeqModel,
    TinySeqPreTrainedModel,
)
from .pipeline import TASK, TranslationPipeline
from .tokenization_tinyseq import TinySeqTokenizer
from .translation import Translator

__version__ = "0.1.0"

AutoConfig.register("tinyseq", TinySeqConfig, exist_ok=True)
AutoModel.register(TinySeqConfig, TinySeqModel, exist_ok=True)
AutoModelForSeq2SeqLM.register(TinySeqConfig, TinySeqForConditionalGeneration, exist_ok=True)
# By its own name, which tokenizer_config.json says, and not for TinySeqConfig: AutoTokenizer prefers the code in a
# folder, if that is trusted, to a tokenizer registered for the configuration.
AutoTokenizer.register(TinySeqTokenizer, tokenizer_class=TinySeqTokenizer, exist_ok=True)
PIPELINE_REGISTRY.register_pipeline(TASK, TranslationPipeline, pt_model=AutoModelForSeq2SeqLM, type="text")

__all__ = [
    "TinySeqConfig",
    "TinySeqDecoder",
    "TinySeqEncoder",
    "TinySeqForConditionalGeneration",
    "TinySeqModel",
    "TinySeqPreTrainedModel",
    "TinySeqTokenizer",
    "TranslationPipeline",
    "Translator",
]
