"""Stands in for a file that Transformers' sdist leaves out: the names that the common tests import, without tests."""

# Arguments of every configuration, none at its default; each must be kept
config_common_kwargs = {
    "return_dict": False,
    "output_hidden_states": True,
    "output_attentions": True,
    "dtype": "float16",
    "chunk_size_feed_forward": 3,
    "architectures": ["TinySeqModel"],
    "id2label": {0: "wrong", 1: "right", 2: "unknown"},
    "label2id": {"wrong": 0, "right": 1, "unknown": 2},
    "problem_type": "single_label_classification",
}
