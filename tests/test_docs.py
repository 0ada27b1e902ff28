"""What the documentation says is so: its snippets run, its commands are understood, its links lead somewhere.

Snippets run as they are written, in an empty folder that holds what they name: a model and a text.
"""

import re
import shlex
import warnings
from pathlib import Path

import pytest
from taught import save_taught_model
from transformers.pipelines import PIPELINE_REGISTRY

import train
from tinyseq import cli

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page for place in ("*", "docs/**/*", "benchmarks/*", "examples/**/*") for page in ROOT.glob(f"{place}.md")
)
CODE = sorted(file for place in ("*", "tinyseq/*", "examples/**/*") for file in ROOT.glob(f"{place}.py"))
LEARNED = {
    "A man is riding a horse.": "Ein Mann reitet auf einem Pferd.",
    "Two dogs play.": "Zwei Hunde spielen.",
}


def blocks(languages):
    """The fenced blocks in one of the languages, each with the page and the line it begins on."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if block[1] in languages:
                name = f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, block.start()) + 1}"
                found.append(pytest.param(block[2], id=name))
    return found


def commands():
    """The command lines of the pages, as words, without comment, prompt and output."""
    found = []
    for block in blocks(("bash", "console", "sh", "")):
        (text,) = block.values
        has_prompts = re.search(r"^\$ ", text, re.MULTILINE)
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if words and (line.startswith("$ ") or not has_prompts):
                found.append(pytest.param(words, id=f"{block.id} {' '.join(words)}"))
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a model that has learned two sentences, to say them again and stop."""
    folder = tmp_path_factory.mktemp("model")
    options = {"encoder_layers": 1, "decoder_layers": 2, "max_position_embeddings": 60}
    save_taught_model(folder, LEARNED, seed=0, vocab_size=320, **options)
    return folder


@pytest.fixture
def user_folder(tmp_path, monkeypatch):
    """An empty folder to be in, but for the files that the pages name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input.txt").write_text("\n".join(LEARNED), encoding="utf-8")
    (tmp_path / "my_recipe.yaml").write_text("output_dir: out")
    return tmp_path


@pytest.mark.parametrize("snippet", blocks(["python"]))
def test_a_python_snippet_runs_as_written_and_nothing_warns(snippet, model, user_folder, capfd, caplog):
    for name in {"runs/en-de/best", *re.findall(r'from_pretrained\("(.+?)"', snippet)}:  # on a card, one on the Hub
        (user_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (user_folder / name).symlink_to(model, target_is_directory=True)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(snippet, "snippet", "exec"), {"__name__": "__main__"})

    out, err = capfd.readouterr()
    assert out != ""
    assert caplog.text == ""
    assert "warn" not in err.lower()


@pytest.mark.parametrize("words", commands())
def test_a_command_is_understood(words, user_folder, monkeypatch):
    parsed = []
    monkeypatch.setattr(train, "train", lambda *options: parsed.append(options))
    program = Path(words[0]).name
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(words[1:2]) <= set(targets)
    elif program == "tinyseq":
        arguments = words[1:]
        redirections = [i for i, word in enumerate(arguments) if word in ("<", "<<<", ">", "|")]
        cli.make_parser().parse_args(arguments[: min(redirections, default=None)])
    elif {"train.py", "tinyseq.train"} & set(words):
        start = next(i for i, word in enumerate(words) if word in ("train.py", "tinyseq.train"))
        train.main(words[start + 1 :])
        assert parsed
    elif program == "python":
        assert (ROOT / words[1]).is_file()
    else:
        assert program in ("pip", "git", "hf")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_into_the_project_leads_to_a_file(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))

    missing = [
        link
        for link in links
        if not re.match(r"https?://|mailto:|#", link) and not (page.parent / link.split("#")[0]).exists()
    ]

    assert missing == []


@pytest.mark.parametrize("page", [*PAGES, *CODE], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_pipeline_that_is_shown_is_one_that_transformers_makes(page):
    tasks = re.findall(r"""pipeline\(\s*["']([\w-]+)["']""", page.read_text(encoding="utf-8"))

    assert set(tasks) <= set(PIPELINE_REGISTRY.get_supported_tasks())
