"""Pushes meet a README.md that a person wrote: what is theirs stays."""

import json

import yaml
from huggingface_hub import ModelCard

BEGIN, END = "<!-- tinyseq: begin -->", "<!-- tinyseq: end -->"
THEIRS = """---
license: cc-by-4.0
language: es
tags: [mine, tinyseq]
widget:
- text: Two dogs play.
---

# A model for my aunt

It translates **letters**.  \n\tAnd nothing else — ¡de verdad!
"""


def parts(card: str) -> tuple[dict, str, str, str]:
    """Metadata, the text before our part, our part, and the text after it."""
    _, metadata, body = card.split("---\n", 2)
    before, ours = body.split(BEGIN)
    ours, after = ours.split(END)
    return yaml.safe_load(metadata), before, ours, after


PUSH_TWICE = """
import sys
from tinyseq.hub.push import push

push(sys.argv[1], "alice/model", message="first")
push(sys.argv[1], "alice/model", message="second")
"""


def test_a_person_s_card_without_our_markers_keeps_its_text_and_its_metadata(one_client, hub, trained):
    repository = hub.create("alice/model", {"README.md": THEIRS.encode(), "notes/a.md": b"theirs"})

    done = one_client.python(PUSH_TWICE, trained)

    assert done.code == 0, done.err
    pushed = hub.files("alice/model")
    card = pushed["README.md"].decode()
    assert card.split("---\n", 2)[2] == THEIRS.split("---\n", 2)[2]
    metadata = yaml.safe_load(card.split("---\n", 2)[1])
    assert metadata["license"] == "cc-by-4.0"
    assert metadata["widget"] == [{"text": "Two dogs play."}]
    assert metadata["tags"][:2] == ["mine", "tinyseq"]
    assert len(set(metadata["tags"])) == len(metadata["tags"])
    assert metadata["pipeline_tag"] == "translation"
    assert pushed["notes/a.md"] == b"theirs"
    assert [commit.title for commit in repository.history()] == ["first", "by hand", "initial commit"]


def test_of_a_card_with_our_markers_only_the_part_between_them_is_new(one_client, hub, trained):
    theirs = THEIRS + f"\nBefore.\n\n{BEGIN}\nold figures\n{END}\n\nAfter, with a `{{brace}}`.\n"
    hub.create("alice/model", {"README.md": theirs.encode()})

    done = one_client.python(PUSH_TWICE, trained)

    assert done.code == 0, done.err
    _, before, old, after = parts(theirs)
    metadata, before_now, ours, after_now = parts(hub.files("alice/model")["README.md"].decode())
    assert (before_now, after_now) == (before, after)
    assert "old figures" not in ours
    assert "alice/model" in ours
    assert metadata["license"] == "cc-by-4.0"


def test_a_new_card_says_what_the_training_wrote_and_the_hub_can_read_it(one_client, hub, trained):
    done = one_client.python(PUSH_TWICE, trained)

    assert done.code == 0, done.err
    assert [commit.title for commit in hub.repository("alice/model").history()] == ["first", "initial commit"]
    card = hub.files("alice/model")["README.md"].decode()
    _, _, ours, _ = parts(card)
    facts = json.loads((trained / "training.json").read_text())
    figures = [line for line in (trained.parent / "log.jsonl").read_text().splitlines() if "valid_bleu" in line]
    scores = [json.loads(line) for line in figures]
    assert facts["valid_bleu"] in [score["valid_bleu"] for score in scores]
    for text in (
        f"{facts['valid_bleu']:.2f}", f"{facts['valid_chrf']:.2f}", facts["bleu_signature"], facts["chrf_signature"],
        "en → es", "train.tsv", "300 sentence pairs", f"{facts['step']} updates", "learning_rate",
        "alice/model", "transformers",
    ):  # fmt: skip
        assert text in ours, text
    data = ModelCard(card).data
    assert data.language == ["en", "es"]
    assert data.pipeline_tag == "translation"
    results = {result.metric_type: result.metric_value for result in data.eval_results}
    assert results == {"bleu": round(facts["valid_bleu"], 2), "chrf": round(facts["valid_chrf"], 2)}
    assert "More Information Needed" not in card


def test_a_model_that_pushes_itself_keeps_a_card_with_gaps_that_a_person_has_begun(one_client, hub, trained):
    """Transformers' form for a card has gaps, which ours fills where there was no card; here one is on the Hub."""
    theirs = (
        "---\nlicense: mit\n---\n\n# My model\n\nIt knows **letters**.\n\n## Limits\n\n[More Information Needed]\n"
    )
    hub.create("alice/model", {"README.md": theirs.encode()})
    script = """
import sys
from tinyseq import TinySeqForConditionalGeneration, TinySeqTokenizer

TinySeqForConditionalGeneration.from_pretrained(sys.argv[1]).push_to_hub("alice/model")
TinySeqTokenizer.from_pretrained(sys.argv[1]).push_to_hub("alice/model")
"""

    done = one_client.python(script, trained)

    assert done.code == 0, done.err
    assert hub.files("alice/model")["README.md"].decode().split("---\n")[2] == theirs.split("---\n")[2]
    assert "model.safetensors" in hub.files("alice/model")


def test_a_card_whose_metadata_can_not_be_read_is_left_alone_and_named(one_client, hub, trained):
    repository = hub.create("alice/model", {"README.md": b"---\nlicense: [mit\n---\nMine.\n"})
    before = dict(repository.find("main").entries)

    done = one_client.tinyseq("push", trained, "alice/model")

    assert (done.code, done.out) == (2, "")
    assert "README.md" in done.err.splitlines()[-1]
    assert "YAML" in done.err.splitlines()[-1]
    assert "Traceback" not in done.err
    assert repository.find("main").entries == before
