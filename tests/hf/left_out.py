"""What of Transformers' common tests is not run, or not as it stands, each with its reason: all of it is here."""

# name of the test -> why it is not run; never because tinyseq fails it
LEFT_OUT: dict[str, str] = {}

EAGER = (
    "with eager attention: under sdpa the library gives no weights, in silence; tinyseq names the setting to change"
)
TEXT = "with the mark of a space taken for the space: the test compares text with what the normaliser makes of it"
ALL_TYPES = "for TinySeq too: the library runs the tests in several processes for a few of its own models only"

# name of the test, or of what tests share -> what is changed, and why
ADAPTED: dict[str, str] = {
    "test_capture_outputs_decorator": EAGER,
    "test_model_outputs_equivalence": EAGER,
    "test_inputs_embeds_matches_input_ids": (
        "the untied model with its embeddings tied: the test looks the target up in the source's embedding"
    ),
    "test_tokenize_special_tokens": (
        "with split_special_tokens=False: by default TinySeq takes a special token that a text spells out for text"
    ),
    "test_training_new_tokenizer": TEXT,
    "test_training_new_tokenizer_with_special_tokens_change": TEXT,
    "_get_trainable_model_class": (
        "of test_training_overfit: a model whose generate() takes a prompt and returns it with its continuation, as "
        "decoder-only models do"
    ),
    "_get_tp_model_class": (
        "of test_tp_*: a model that takes the source for the target too, as these tests call models with one text"
    ),
    "_run_fsdp2_distributed_test": (
        "of test_fsdp2_* and test_hsdp_*: with AutoModelForSeq2SeqLM, and with a larger epsilon in Adam, which would "
        "make whole steps of the rounding in the gradients of the keys' biases; these gradients are zero"
    ),
    "_skip_if_tp_distributed_not_enabled": ALL_TYPES,
    "_skip_if_fsdp_distributed_not_enabled": ALL_TYPES,
}
