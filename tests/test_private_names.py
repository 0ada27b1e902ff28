"""Names that Transformers does not call public and the code beside published weights uses all the same.

Each is a decision, written down here: where Transformers reads it, and what a release that has renamed it takes away.
Nothing but that may go: models on the Hub keep the code of their day.
"""

import ast
import inspect
import re
import shutil
from pathlib import Path

import pytest
from fresh_process import WITHOUT_TINYSEQ, run_python
from old_models import RECORD, RELEASES, load
from test_old_models import TRANSLATE, assert_as_recorded
from transformers import GenerationMixin, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import PushToHubMixin, generic, output_capturing

import tinyseq

READ_BY = {
    "_attn_implementation": PreTrainedConfig,  # the choice of an implementation: SDPA it is then
    "_auto_class": PreTrainedTokenizerBase.save_pretrained,  # a user's own tokenizer class brings its code unasked
    "_can_compile_fullgraph": PreTrainedModel,  # compiled decoding with a static cache
    "_can_record_outputs": PreTrainedModel,  # hidden states and attentions
    "_no_split_modules": PreTrainedModel,  # device_map="auto"
    "_prepare_generated_length": GenerationMixin.generate,  # the refusal of lengths beyond the positions
    "_skip_keys_device_placement": PreTrainedModel,  # the cache of a model that is spread over devices
    "_supports_attention_backend": PreTrainedModel,  # other implementations of attention, this and the next three
    "_supports_flash_attn": PreTrainedModel,
    "_supports_flex_attn": PreTrainedModel,
    "_supports_sdpa": PreTrainedModel,
    "_upload_modified_files": PushToHubMixin.push_to_hub,  # our text in a repository's first card
    "capture_outputs": output_capturing,  # hidden states and attentions
    "merge_with_config_defaults": generic,  # a cache from `forward` where none was asked for
}
# The two hooks without which Transformers loads no model of anybody's: those it documents, and there is no way round
DOCUMENTED = {"_init_weights": PreTrainedModel, "_tied_weights_keys": PreTrainedModel}

# Reads every file of Transformers with the names of the second argument renamed, as a later release might have them
RENAMED = """
import re, sys
from importlib.machinery import PathFinder, SourceFileLoader

NAMES = re.compile(rf"\\b({sys.argv[2]})\\b")

class Later(SourceFileLoader):
    def get_code(self, fullname):
        source = self.get_data(self.path).decode()
        later = NAMES.sub(r"\\1_of_later", source)
        return super().get_code(fullname) if later == source else self.source_to_code(later, self.path)

class LaterTransformers:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "transformers":
            spec = PathFinder.find_spec(name, path, target)
            if spec is not None and type(spec.loader) is SourceFileLoader:
                spec.loader = Later(name, spec.origin)
            return spec

sys.meta_path.insert(0, LaterTransformers())
"""


@pytest.mark.parametrize("name", {**READ_BY, **DOCUMENTED})
def test_transformers_still_has_the_name(name):
    assert re.search(rf"\b{name}\b", inspect.getsource({**READ_BY, **DOCUMENTED}[name]))


@pytest.mark.parametrize(
    "names",
    ["|".join(READ_BY), *(pytest.param(name, marks=pytest.mark.slow) for name in READ_BY)],
    ids=lambda names: "all at once" if "|" in names else names,
)
def test_a_saved_model_translates_with_a_transformers_that_has_renamed_them(names, tmp_path):
    for part in load(RELEASES[-1]):
        part.save_pretrained(tmp_path)
    shutil.copy(RELEASES[-1] / RECORD, tmp_path)
    found = run_python(WITHOUT_TINYSEQ + RENAMED + TRANSLATE, tmp_path, names)
    assert found["module"] == "transformers_modules"
    assert_as_recorded(found["lines"], tmp_path)


def private_names(file: Path) -> set[str]:
    """What is read of an object, declared in a class, or named by a string, and begins with one underscore."""
    names = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        elif isinstance(node, ast.Constant):
            names.append(str(node.value))
        elif isinstance(node, ast.ClassDef):
            names += [name.id for part in node.body for name in ast.walk(part) if isinstance(name, ast.Name)]
            names += [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
    return {name for name in names if re.fullmatch(r"_[a-z]\w*", name)}


def test_the_code_of_a_model_uses_no_other_private_name():
    files = Path(tinyseq.__file__).parent.glob("*_tinyseq.py")
    used = set().union(*map(private_names, files))
    assert used == {name for name in {**READ_BY, **DOCUMENTED} if name.startswith("_")}
