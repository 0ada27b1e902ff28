"""The small TinySeq model that Transformers' common tests are run with."""

import torch
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)

from tinyseq import TinySeqConfig, TinySeqForConditionalGeneration, TinySeqModel

# The common tests look the classes up by name in the library's tables; unlisted, some of them would test nothing
MODEL_MAPPING_NAMES["tinyseq"] = "TinySeqModel"
MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES["tinyseq"] = "TinySeqForConditionalGeneration"


class TinySeqTester:
    """Makes configurations and inputs; the common tests read its attributes, and call the methods by their names."""

    is_training = True
    base_model_class = TinySeqModel
    conditional_generation_class = TinySeqForConditionalGeneration

    batch_size = 3
    encoder_seq_length = 7
    decoder_seq_length = seq_length = 5  # `seq_length` is what labels are made with
    hidden_size = 24
    num_hidden_layers = 2  # of both sides: the common tests know one number
    num_attention_heads = 4
    vocab_size = 99

    attn_implementation: str | None = None

    def __init__(self, **options):
        self.options = options  # of the configuration, beside those above

    def get_config(self) -> TinySeqConfig:
        """Returns a new configuration, without dropout."""
        options = {
            "vocab_size": self.vocab_size,
            "d_model": self.hidden_size,
            "encoder_layers": self.num_hidden_layers,
            "decoder_layers": self.num_hidden_layers,
            "encoder_attention_heads": self.num_attention_heads,
            "decoder_attention_heads": self.num_attention_heads,
            "encoder_ffn_dim": 32,
            "decoder_ffn_dim": 40,
            "dropout": 0.0,
            "max_position_embeddings": 100,
            "eos_token_id": 0,  # a common test shrinks the vocabulary to 4
            "pad_token_id": 1,
            "decoder_start_token_id": 2,
            "bos_token_id": 3,
        }
        return TinySeqConfig(**(options | self.options), attn_implementation=self.attn_implementation)

    def prepare_config_and_inputs_for_common(self) -> tuple[TinySeqConfig, dict[str, torch.Tensor]]:
        """Returns a configuration and the arguments of `forward`: whole sentences, no padding."""
        config = self.get_config()
        source = torch.randint(4, config.vocab_size, (self.batch_size, self.encoder_seq_length))
        target = torch.randint(4, config.vocab_size, (self.batch_size, self.decoder_seq_length))
        source[:, -1] = config.eos_token_id
        target[:, 0] = config.decoder_start_token_id
        return config, {
            "input_ids": source,
            "attention_mask": torch.ones_like(source),
            "decoder_input_ids": target,
            "decoder_attention_mask": torch.ones_like(target),
        }
