# Copyright 2026 The tinyseq authors. Licensed under the Apache License, Version 2.0; see LICENSE.
"""tinyseq: small encoder-decoder Transformers for translation, native to Hugging Face.

Importing it makes ``AutoConfig``, ``AutoModel``, ``AutoModelForSeq2SeqLM`` and ``AutoTokenizer`` know "tinyseq".
"""

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer

from .configuration_tinyseq import TinySeqConfig
from .modeling_tinyseq import (
    TinySeqDecoder,
    TinySeqEncoder,
    TinySeqForConditionalGeneration,
    TinySeqModel,
    TinySeqPreTrainedModel,
)
from .tokenization_tinyseq import TinySeqTokenizer

__version__ = "0.1.0"

AutoConfig.register("tinyseq", TinySeqConfig, exist_ok=True)
AutoModel.register(TinySeqConfig, TinySeqModel, exist_ok=True)
AutoModelForSeq2SeqLM.register(TinySeqConfig, TinySeqForConditionalGeneration, exist_ok=True)
AutoTokenizer.register(TinySeqConfig, tokenizer_class=TinySeqTokenizer, exist_ok=True)

__all__ = [
    "TinySeqConfig",
    "TinySeqDecoder",
    "TinySeqEncoder",
    "TinySeqForConditionalGeneration",
    "TinySeqModel",
    "TinySeqPreTrainedModel",
    "TinySeqTokenizer",
]
