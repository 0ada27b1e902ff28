"""What a model card says, and what of an author's README.md it leaves alone."""

import errno
import json
from types import SimpleNamespace

import pytest
import yaml

from tinyseq.configuration_tinyseq import TinySeqConfig
from tinyseq.hub.card import facts_of_run, languages_of, literally
from tinyseq.hub.push import (
    BackgroundPush,
    add_facts,
    files_of_a_model,
    make_card,
    split_card,
    waiting_time,
    write_facts,
)
from tinyseq.push_tinyseq import CARD_BEGIN, CARD_END, first_card
from tinyseq.training.options import without

FACTS = {
    "languages": ["en", "pt-BR"],
    "data": {
        "train": {"files": ["train.en", "train.pt"], "data_set": None, "pairs": 29_000, "longest_source": 41},
        "test": {"files": ["owner/books"], "data_set": "owner/books", "pairs": 1_000},
    },
    "parameters": 2_157_056,
    "machine": "2 threads of a CPU (x86_64)",
    "options": {"seed": 3, "learning_rate": 0.003},
    "versions": {"torch": "2.13.0"},
    "examples": [{"source": "A dog runs.", "translation": "Um cão corre.", "reference": "Um cachorro corre."}],
    "step": 4600,
    "epoch": 9.7,
    "training_seconds": 663.4,
    "target_tokens_per_second": 6514.2,
    "valid_bleu": 35.531,
    "valid_chrf": 60.004,
    "valid_scored": 500,
    "bleu_signature": "nrefs:1|tok:13a|version:2",
    "chrf_signature": "nrefs:1|nc:6|version:2",
    "test": {
        "bleu": 37.694, "chrf": 61.317, "exact_match": 7.0, "sentences": 1000, "num_beams": 5, "unfinished": 3,
        "sentences_per_second": 41.3, "bleu_signature": "nrefs:1|tok:zh|version:2",
        "chrf_signature": "nrefs:1|nc:6|version:2",
    },
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """A model's folder as far as a card needs it."""
    TinySeqConfig(vocab_size=6000, d_model=132, encoder_layers=3, decoder_layers=2).save_pretrained(tmp_path)
    (tmp_path / "training.json").write_text(json.dumps(FACTS), encoding="utf-8")
    return tmp_path


def test_a_card_says_languages_data_sizes_training_scores_with_signatures_speed_and_limits(folder):
    metadata, body = split_card(make_card(folder, "alice/en-pt"))
    for part in (
        "# en-pt", "**en → pt-BR**", "2.2 million parameters", "29,000 sentence pairs",
        "| test | 1000 | beam 5 | 37.69 | 61.32 |", "| validation | 500 | greedy | 35.53 | 60.00 |",
        "nrefs:1|tok:zh|version:2", "https://huggingface.co/datasets/owner/books", "3 encoder, 2 decoder",
        "6,000 pieces", "4,600 updates", "663 seconds", "2 threads of a CPU", "learning_rate: 0.003", "torch 2.13.0",
        "6,514 target pieces per second", "41.3 sentences per second", "longest source in training had 41 pieces",
        "at most 512 pieces", "3 of the 1,000 test translations",
        "| A dog runs. | Um cão corre. | Um cachorro corre. |",
    ):  # fmt: skip
        assert part in body, part
    assert "More Information Needed" not in body
    assert metadata["language"] == ["en", "pt"]
    assert (metadata["library_name"], metadata["pipeline_tag"]) == ("transformers", "translation")
    assert metadata["datasets"] == ["owner/books"]
    results = metadata["model-index"][0]["results"]
    assert [(r["dataset"]["split"], [m["value"] for m in r["metrics"]]) for r in results] == [
        ("test", [37.69, 61.32]),
        ("validation", [35.53, 60.0]),
    ]
    assert results[0]["metrics"][0]["name"] == "BLEU nrefs:1|tok:zh|version:2"


def test_heads_that_were_removed_are_told(folder):
    config = json.loads((folder / "config.json").read_text())
    assert "heads that are left" not in make_card(folder, "me/small")
    config["kept_heads"] = {"encoder": [[0], [1, 2]], "decoder": [[0]], "cross": [[1]]}
    (folder / "config.json").write_text(json.dumps(config))
    assert "| heads that are left | 5; the others were removed |" in make_card(folder, "me/small")


def test_the_hubs_client_accepts_the_metadata(folder):
    from huggingface_hub import ModelCard

    card = ModelCard(make_card(folder, "alice/en-pt"))
    assert [(result.metric_type, result.metric_value) for result in card.data.eval_results] == [
        ("bleu", 37.69), ("chrf", 61.32), ("bleu", 35.53), ("chrf", 60.0),
    ]  # fmt: skip


def test_what_is_not_known_is_not_on_the_card(folder):
    (folder / "training.json").unlink()
    metadata, body = split_card(make_card(folder, "alice/en-pt"))
    assert [line for line in body.splitlines() if line.startswith("#")] == [
        "# en-pt",
        "## Use",
        "## Model",
        "## Limits",
    ]
    assert "model-index" not in metadata
    assert "language" not in metadata


def test_the_snippet_is_code_whatever_the_example_is(folder):
    for source, translation in [('say "no" \\ {x}', "día"), ("a\u2028b", "c"), ("```", "c"), ("c", "<!-- x")]:
        facts = {**FACTS, "examples": [{"source": source, "translation": translation, "reference": ""}]}
        (folder / "training.json").write_text(json.dumps(facts), encoding="utf-8")
        snippet = make_card(folder, "alice/en-pt").split("```python\n")[1].split("```")[0]
        compile(snippet, "card", "exec")
        plain = source.startswith("say")
        assert (json.dumps(source, ensure_ascii=False) in snippet) == plain
        assert snippet.rstrip().endswith("# día") == plain
        assert ("A text to translate." in snippet) == (not plain)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a|b", r"a\|b"),
        ("![x](http://tracker)", r"\!\[x\](http://tracker)"),
        ("<img src=x>", r"\<img src=x\>"),
        ("a\n\rb\u2028c", "a b c"),
        (f"x {CARD_END}", r"x \<\!-- tinyseq: end --\>"),
    ],
)
def test_a_sentence_in_a_table_means_itself(text, shown):
    assert literally(text) == shown


def test_an_authors_text_stays_and_only_the_part_between_the_markers_is_new(folder):
    before = (
        "---\nlicense: mit\ntags:\n- mine\nlanguage: [xx]\n---\n# My title\n\nMy words.\n\n"
        f"{CARD_BEGIN}\nold\n{CARD_END}\n\n## Thanks\n\nTo you.\n"
    )
    card = make_card(folder, "alice/en-pt", before)
    metadata, body = split_card(card)
    assert body.startswith("# My title\n\nMy words.\n\n" + CARD_BEGIN)
    assert body.endswith(CARD_END + "\n\n## Thanks\n\nTo you.\n")
    assert "old" not in body
    assert "37.69" in body
    assert metadata["license"] == "mit"
    assert metadata["tags"] == ["mine", "tinyseq", "translation"]
    assert metadata["language"] == ["en", "pt"]
    assert make_card(folder, "alice/en-pt", card) == card


@pytest.mark.parametrize("head", ["", "---\nlicense: mit\n---\n"])
def test_a_readme_without_the_markers_keeps_its_text_and_gets_metadata(folder, head):
    metadata, body = split_card(make_card(folder, "alice/en-pt", f"{head}# Mine\n\nAll by hand.\n"))
    assert body.strip() == "# Mine\n\nAll by hand."
    assert metadata["model-index"][0]["results"][0]["metrics"][0]["value"] == 37.69
    assert metadata.get("license") == ("mit" if head else None)


@pytest.mark.parametrize(
    "head, known",
    [
        ("---\nlicense: mit\nbase_model:\n1: one\n---\n", {"license": "mit", "base_model": None, 1: "one"}),
        ("---\ntitle: a ---\nlicense: mit\n---\n", {"title": "a ---", "license": "mit"}),
        ("\n\n---  \nlicense: mit\n---\t\n", {"license": "mit"}),
        ("---\n# nothing yet\n---\n", {}),
        ("---\n---\n", {}),
    ],
)
def test_an_authors_metadata_are_all_read_and_stay_as_they_are_and_where_they_are(folder, head, known, caplog):
    body = "Mine.\n\n---\n\nAfter a rule.\n"
    metadata, rest = split_card(make_card(folder, "alice/en-pt", head + body))
    assert rest == body
    assert list(metadata.items())[: len(known)] == list(known.items())
    assert caplog.text == ""


def test_a_readme_from_windows_keeps_its_metadata_and_its_words(folder):
    (folder / "README.md").write_bytes("\ufeff---\r\nlicense: mit\r\n---\r\n# Mío\r\n\r\nBy hand.\r\n".encode())
    write_facts(folder, FACTS, "alice/en-pt")
    metadata, body = split_card((folder / "README.md").read_text(encoding="utf-8"))
    assert body == "# Mío\n\nBy hand.\n"
    assert metadata["license"] == "mit"


@pytest.mark.parametrize("head", ["a: [", "- a\n- b"])
def test_metadata_that_cannot_be_read_are_an_error_and_not_lost(folder, head):
    with pytest.raises(ValueError, match=r"README.md: its metadata (are no YAML|must be lines)"):
        make_card(folder, "alice/en-pt", f"---\n{head}\n---\n# Mine\n")


def test_facts_that_come_later_are_added_beside_the_weights_and_on_the_card(folder):
    write_facts(folder, {key: value for key, value in FACTS.items() if key != "test"}, "x/y")
    assert "37.69" not in (folder / "README.md").read_text(encoding="utf-8")
    add_facts(folder, {"test": FACTS["test"]}, "x/y")
    assert "37.69" in (folder / "README.md").read_text(encoding="utf-8")
    assert json.loads((folder / "training.json").read_text(encoding="utf-8")) == FACTS
    assert (folder / "config.json").is_file()


@pytest.mark.parametrize(
    "options, codes",
    [
        ((None, None, ["a/train.en", "a/train.de.gz"]), ("en", "de")),
        ((None, None, ["train.source.txt", "train.target.txt"]), (None, None)),
        (("en_XX", "pt_BR", ["x.tsv"]), ("en-XX", "pt-BR")),
        (("English text", "2", ["x.tsv"]), (None, None)),
        ((None, None, ["grammar"]), ("en", "es")),
        (("es", "en", ["grammar"]), ("es", "en")),
    ],
)
def test_languages_are_what_was_named_or_how_the_files_end(options, codes):
    assert languages_of(*options) == codes


def test_facts_of_a_run_hold_no_folders_and_no_places_of_the_machine():
    options = {
        "train": ["/home/alice/secret/train.en", "/home/alice/secret/train.de"], "valid": None, "test": None,
        "source": None, "target": None, "output_dir": "/home/alice/runs/x", "tokenizer": "/home/alice/tok",
        "overwrite": False, "report_to": ["wandb"], "hub_model_id": "alice/x", "seed": 5,
    }  # fmt: skip
    facts = facts_of_run(
        options,
        without("is_private", options),
        {"train": (options["train"], 12), "validation": (None, 3)},
        longest_source=9,
    )
    assert "alice" not in yaml.safe_dump(facts)
    assert facts["options"] == {"source": None, "target": None, "seed": 5}
    assert facts["data"]["train"] == {
        "files": ["train.en", "train.de"], "data_set": None, "pairs": 12, "longest_source": 9,
    }  # fmt: skip
    assert facts["data"]["validation"]["files"] == ["taken out of the training data"]
    on_hub = facts_of_run({**options, "train": ["owner/books"]}, {}, {"train": (["owner/books"], 1)}, longest_source=9)
    assert on_hub["data"]["train"]["data_set"] == "owner/books"


def test_scores_of_ours_go_with_the_weights_they_were_of_and_those_of_an_author_stay(folder):
    before = make_card(folder, "alice/en-pt", "---\nlicense: mit\n---\nMine.\n")
    assert "nrefs:1" in before
    (folder / "training.json").unlink()
    metadata, _ = split_card(make_card(folder, "alice/en-pt", before))
    assert "model-index" not in metadata
    assert "metrics" not in metadata
    assert metadata["license"] == "mit"
    theirs = "---\nmodel-index:\n- name: x\n  results: []\nmetrics: [comet]\n---\nMine.\n"
    metadata, _ = split_card(make_card(folder, "alice/en-pt", theirs))
    assert metadata["model-index"] == [{"name": "x", "results": []}]
    assert metadata["metrics"] == ["comet"]


def test_a_first_card_keeps_the_tags_of_the_call():
    metadata, body = split_card(first_card("alice/en-pt", ["medical", "tinyseq", "a: b"]))
    assert metadata["tags"] == ["tinyseq", "medical", "a: b"]
    assert body.strip().startswith(f"{CARD_BEGIN}\n# en-pt\n")
    compile(body.split("```python\n")[1].split("```")[0], "card", "exec")


def test_only_a_model_of_tinyseqs_with_safe_weights_is_pushed(folder):
    with pytest.raises(ValueError, match="holds no weights"):
        files_of_a_model(folder)
    (folder / "model.safetensors").write_bytes(b"")
    (folder / ".secret").write_text("x")
    assert {"model.safetensors", "config.json", "training.json"} <= {path.name for path in files_of_a_model(folder)}
    of_the_run = {"state.json", "log.jsonl", "checksums.json", "optimizer.json", "optimizer.safetensors"}
    for name in {"average.json", "average.safetensors", *of_the_run}:  # in a checkpoint; they name files, quote texts
        (folder / name).write_text("{}")
    pushed = {path.name for path in files_of_a_model(folder)}
    assert ".secret" not in pushed
    assert not pushed & {"average.json", "average.safetensors", *of_the_run}
    (folder / "optimizer.pt").write_bytes(b"")
    with pytest.raises(ValueError, match=r"optimizer.pt may run code when read"):
        files_of_a_model(folder)
    (folder / "config.json").write_text('{"model_type": "marian"}')
    with pytest.raises(ValueError, match=r"holds a 'marian' model, not one of tinyseq's"):
        files_of_a_model(folder)


@pytest.mark.parametrize(
    "status, headers, seconds",
    [
        (429, {"RateLimit": '"api";r=0;t=55'}, 56),
        (429, {"Retry-After": "3"}, 4),
        (503, {"RateLimit": '"api";r=900;t=240'}, 7),
        (503, {"Retry-After": "3"}, 4),
        (500, {}, 7),
    ],
)
def test_the_hub_is_asked_again_when_it_wants_to_be_and_its_limit_counts_only_where_it_was_reached(
    status, headers, seconds
):
    error = SimpleNamespace(response=SimpleNamespace(status_code=status, headers=headers))
    assert waiting_time(error, 7) == seconds


@pytest.mark.parametrize("step", ["tempfile.mkdtemp", "shutil.copytree"])
def test_a_full_disk_for_temporary_files_leaves_a_push_out_and_does_not_end_the_training(
    folder, monkeypatch, caplog, step
):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(step, full)
    pushes = BackgroundPush("alice/en-pt")
    pushes.push(folder, "Update 5")
    pushes.close()
    assert pushes.running is None
    assert "A push to alice/en-pt was left out; training goes on. [Errno 28] No space left on device" in caplog.text
