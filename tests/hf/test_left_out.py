"""The tables of `left_out.py` are the whole truth: nothing else of Transformers' common tests is changed here."""

import importlib
import unittest
from inspect import unwrap
from pathlib import Path

import upstream
from left_out import ADAPTED, LEFT_OUT

upstream.need("test_modeling_common")

# What the common tests expect of whoever runs them
EXPECTED = {
    "all_model_classes", "from_pretrained_id", "is_encoder_decoder", "model_tester", "rust_tokenizer_class",
    "tokenizer_class",
}  # fmt: skip

CASES = [
    value
    for file in sorted(Path(__file__).parent.glob("test_hf_*.py"))
    for value in vars(importlib.import_module(file.stem)).values()
    if isinstance(value, type) and issubclass(value, unittest.TestCase)
]


def test_every_change_to_a_common_test_or_to_what_they_share_is_in_the_tables():
    changed, theirs = set(), set()
    for case in CASES:
        mixins = [part for part in case.__mro__ if part.__module__.startswith("tests.")]
        assert mixins, f"{case.__name__} runs no common test"
        common = {name: value for mixin in reversed(mixins) for name, value in vars(mixin).items()}
        common = {name: value for name, value in common.items() if not name.startswith(("__", "_abc_"))}
        theirs |= set(common)
        for part in case.__mro__[: case.__mro__.index(mixins[0])]:
            # Transformers wraps the inherited tests and sets them anew on each class: these are not changed
            own = {name for name, value in vars(part).items() if unwrap(value) is not unwrap(common.get(name))}
            changed |= own & set(common)
    assert changed - EXPECTED - set(dir(unittest.TestCase)) == set(ADAPTED) | set(LEFT_OUT)
    assert theirs >= set(ADAPTED) | set(LEFT_OUT)
