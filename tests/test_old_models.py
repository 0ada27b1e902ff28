"""Models saved by earlier releases still load, translate word for word and score alike; old_models.py says how."""

import pytest
from fresh_process import WITHOUT_TINYSEQ, run_python
from old_models import RELEASES, load, recorded, translated

TRANSLATE = """
import json, sys
from pathlib import Path
from old_models import load, recorded, translated

folder = Path(sys.argv[1])
model, tokenizer = load(folder, trust_remote_code=True)
sources = [line["source"] for line in recorded(folder)]
found = {"module": type(model).__module__.partition(".")[0], "lines": translated(model, tokenizer, sources)}
print(json.dumps(found))
"""

each_release = pytest.mark.parametrize("folder", RELEASES, ids=lambda folder: folder.name)


def assert_as_recorded(found, folder):
    expected = recorded(folder)
    assert [(line["greedy"], line["beams"]) for line in found] == [
        (line["greedy"], line["beams"]) for line in expected
    ]
    for score in ("log_prob", "beams_score"):
        assert [line[score] for line in found] == pytest.approx([line[score] for line in expected], abs=1e-4)


def test_there_is_a_model_of_every_release():
    assert [folder.name for folder in RELEASES] == ["release-0.1.0"]


@each_release
def test_an_old_model_in_this_package_gives_the_translations_and_scores_of_its_day(folder):
    model, tokenizer = load(folder)
    assert type(model).__module__ == "tinyseq.modeling_tinyseq"
    assert_as_recorded(translated(model, tokenizer, [line["source"] for line in recorded(folder)]), folder)


@each_release
def test_an_old_model_with_its_own_code_gives_them_too_where_tinyseq_is_not_installed(folder):
    found = run_python(WITHOUT_TINYSEQ + TRANSLATE, folder)
    assert found["module"] == "transformers_modules"
    assert_as_recorded(found["lines"], folder)
