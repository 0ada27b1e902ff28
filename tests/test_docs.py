"""What the documentation says is so: its snippets run, its commands are understood, its links lead somewhere.

Snippets run as they are written, in an empty folder that holds what they name: a model and a text. So do the commands
of the walk through attention, which is there in two languages.
"""

import ast
import io
import itertools
import re
import shlex
import warnings
from pathlib import Path

import pytest
from accelerate.state import AcceleratorState
from taught import save_taught_model
from transformers.pipelines import PIPELINE_REGISTRY

import train
from tinyseq import Translator, attention
from tinyseq.attention.trace import trace
from tinyseq.cli import main as cli

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page for place in ("*", "docs/**/*", "benchmarks/*", "examples/**/*") for page in ROOT.glob(f"{place}.md")
)
CODE = sorted(file for place in ("*", "tinyseq/*", "examples/**/*") for file in ROOT.glob(f"{place}.py"))
WALK, WALK_IN_CHINESE = ROOT / "docs/attention.md", ROOT / "docs/attention.zh.md"
SHORT = [
    "--d_model", "16", "--vocab_size", "310", "--encoder_layers", "1", "--decoder_layers", "1",
    "--max_position_embeddings", "60", "--max_steps", "2",
]  # fmt: skip
LEARNED = {
    "A man is riding a horse.": "Ein Mann reitet auf einem Pferd.",
    "Two dogs play.": "Zwei Hunde spielen.",
}
LEARNED_BY_DEMO = {
    "You are welcome.": "De nada.",
    "The ball is blue.": "La bola es azul.",
    "The animal didn't cross the street because it was too tired.": "El animal no cruzó la calle, estaba cansado.",
    "The animal didn't cross the street because it was too wide.": "El animal no cruzó la calle, era ancha.",
}


def blocks(languages, pages=PAGES):
    """The fenced blocks in one of the languages, each with the page and the line it begins on."""
    found = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if block[1] in languages:
                name = f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, block.start()) + 1}"
                found.append(pytest.param(block[2], id=name))
    return found


def once(snippets):
    """Those snippets that differ in more than their comments: a page in another language has the same code."""
    by_code = {re.sub(r"\s*#.*", "", snippet.values[0]): snippet for snippet in reversed(snippets)}
    return list(reversed(by_code.values()))


def each_once(found):
    """Those commands that differ: many are on more than one page."""
    return list({tuple(command.values[0]): command for command in reversed(found)}.values())


def commands(pages=PAGES):
    """The command lines of the pages, as words, without comment, prompt and output."""
    found = []
    for block in blocks(("bash", "console", "sh", ""), pages):
        (text,) = block.values
        has_prompts = re.search(r"^\$ ", text, re.MULTILINE)
        for line in text.replace("\\\n", " ").splitlines():
            is_command = line.startswith("$ ") or not has_prompts  # shlex fails at an apostrophe of the output
            words = shlex.split(line.removeprefix("$ "), comments=True) if is_command else []
            if words:
                found.append(pytest.param(words, id=f"{block.id} {' '.join(words)}"))
    return found


def outputs(words):
    """What a command of tinyseq writes."""
    return [name for option, name in itertools.pairwise(words) if option in ("--png", "--html", "--output")]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a model that has learned two sentences, to say them again and stop."""
    folder = tmp_path_factory.mktemp("model")
    options = {"encoder_layers": 1, "decoder_layers": 2, "max_position_embeddings": 60}
    save_taught_model(folder, LEARNED, seed=0, vocab_size=320, **options)
    return folder


@pytest.fixture(scope="module")
def demo_model(tmp_path_factory):
    """The folder of a model as deep as the demo's, so that it has the layers and heads that are named."""
    folder = tmp_path_factory.mktemp("demo_model")
    options = {"encoder_layers": 3, "decoder_layers": 3, "max_position_embeddings": 200}
    save_taught_model(folder, LEARNED_BY_DEMO, seed=1, vocab_size=310, **options)
    return folder


def link(folder, to):
    """Makes a folder another name of a model's."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(to, target_is_directory=True)


@pytest.fixture
def user_folder(tmp_path, monkeypatch):
    """An empty folder to be in, but for the files that the pages name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input.txt").write_text("".join(f"{text}\n" for text in LEARNED), encoding="utf-8")
    for name, pairs in {"train": LEARNED_BY_DEMO, "val": LEARNED, "test": LEARNED}.items():
        for side, texts in (("en", pairs), ("de", pairs.values())):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    recipe = "train: [train.en, train.de]\nvalid: [val.en, val.de]\noutput_dir: out\n"
    sizes = (f"{name.removeprefix('--')}: {value}\n" for name, value in zip(SHORT[::2], SHORT[1::2], strict=True))
    (tmp_path / "my_recipe.yaml").write_text("".join([recipe, *sizes]), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("snippet", once(blocks(["python"])))
def test_a_python_snippet_runs_as_written_and_nothing_warns(snippet, model, demo_model, user_folder, capfd, caplog):
    for name in {"runs/en-de/best", *re.findall(r'from_pretrained\("(.+?)"', snippet)}:  # on a card, one on the Hub
        link(user_folder / name, demo_model if name.startswith("demo_output") else model)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(snippet, "snippet", "exec"), {"__name__": "__main__"})

    out, err = capfd.readouterr()
    assert out != ""
    assert caplog.text == ""
    assert "warn" not in err.lower()


@pytest.mark.parametrize("words", each_once(commands()))
def test_a_command_runs_as_written_and_makes_what_it_names(words, model, demo_model, user_folder, monkeypatch, capfd):
    program = Path(words[0]).name
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(words[1:2]) <= set(targets)
    elif program == "tinyseq":
        run_tinyseq(words[1:], model, demo_model, user_folder, monkeypatch, capfd)
    elif {"train.py", "tinyseq.train"} & set(words):  # of several processes, by launchers: tests/system
        start = next(i for i, word in enumerate(words) if word in ("train.py", "tinyseq.train"))
        arguments = words[start + 1 :]
        if "--push_to_hub" in arguments:  # with a Hub: tests/hub
            monkeypatch.setattr(train, "train", lambda *options: None)
            train.main(arguments)
            return
        AcceleratorState._reset_state(reset_partial_state=True)  # of another test, with other number formats
        train.main([*arguments, *([] if "my_recipe.yaml" in arguments else SHORT)])
        folder = arguments[arguments.index("--output_dir") + 1] if "--output_dir" in arguments else "out"
        assert (user_folder / folder / "best" / "model.safetensors").is_file()
    elif program == "python":  # tests/test_lora_example.py; benchmarks take long
        assert (ROOT / words[1]).is_file()
    else:
        assert program in ("pip", "git", "hf", "source", "chromium")


def run_tinyseq(arguments, model, demo_model, user_folder, monkeypatch, capfd):
    """Runs a command of tinyseq with what a shell would put in its way: `< file`, `<<< text` and `> file`."""
    link(user_folder / "demo_output/run/best", demo_model)
    for name in ("runs/en-de/best", *(word for word in arguments if word.startswith("your-name/"))):
        link(user_folder / name, model)
    (user_folder / "docs/attention").mkdir(parents=True)
    redirections = {word: arguments[i + 1] for i, word in enumerate(arguments) if word in ("<", "<<<", ">")}
    arguments = arguments[: min((arguments.index(word) for word in redirections), default=None)]
    if arguments[0] == "push":  # to a Hub: tests/hub
        cli.make_parser().parse_args(arguments)
        return
    text = Path(redirections["<"]).read_bytes() if "<" in redirections else redirections.get("<<<", "").encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))

    code = cli.main(arguments)

    out, err = capfd.readouterr()
    assert (code, err) == (0, "")
    made = outputs(arguments)
    assert out != "" or made != []
    for path in map(Path, made):
        assert any(path.iterdir()) if path.is_dir() else path.stat().st_size > 0
    if arguments[0] == "translate":
        assert set(out.splitlines()) <= {*LEARNED.values(), *LEARNED_BY_DEMO.values()}


@pytest.mark.parametrize("page", [WALK, WALK_IN_CHINESE], ids=lambda page: page.name)
def test_each_picture_of_the_walk_is_made_by_a_command_of_the_page_from_what_an_earlier_one_made(page):
    pictures, made = [], set()
    for command in commands([page]):
        (words,) = command.values
        if words[0] == "chromium":
            assert re.search(r"^file://\$PWD/(.+?)#", words[-1])[1] in made
            pictures += [word.removeprefix("--screenshot=") for word in words if word.startswith("--screenshot=")]
        made |= {*outputs(words)}
    shown = re.findall(r"!\[.*?\]\((\S+?)\)", page.read_text(encoding="utf-8"))

    assert shown != []
    assert {f"docs/{path}" for path in shown} == {*pictures, *(name for name in made if name.endswith(".png"))}


def test_the_walk_has_the_same_commands_outputs_snippets_and_pictures_in_both_languages():
    def essence(page):
        text = page.read_text(encoding="utf-8")
        return {
            "commands": [command.values for command in commands([page])],
            "outputs": [block.values for block in blocks(("console", "text"), [page])],
            "snippets": [ast.dump(ast.parse(*block.values)) for block in blocks(("python",), [page])],  # not comments
            "pictures": re.findall(r"!\[.*?\]\((\S+?)\)", text),
            "sections": len(re.findall("^## ", text, re.MULTILINE)),
        }

    assert essence(WALK_IN_CHINESE) == essence(WALK)


def test_the_steps_that_the_walk_quotes_are_steps_of_a_trace(demo_model):
    def titles(text):
        """The lines that begin a step, without sizes, which are the demo's own; the steps that write are too."""
        found = re.findall(r"^\S.*   [a-z]+\.[\w.]+ \(.+\)$", text, re.MULTILINE)
        return [re.sub(r"\d+(?=[,)])", "N", title) for title in found if not title.startswith("Piece ")]

    translator = Translator.from_pretrained(demo_model)
    shown = titles(str(trace(translator.model, translator.tokenizer, "You are welcome.")))
    quoted = [title for block in blocks(("console", "text"), [WALK]) for title in titles(*block.values)]

    assert quoted != []
    assert [title for title in quoted if title not in shown] == []


@pytest.mark.parametrize("page", [WALK, WALK_IN_CHINESE], ids=lambda page: page.name)
def test_the_walk_names_all_that_attention_offers(page):
    file = Path(attention.__file__).with_name("maps.py")
    for_users = file.read_text(encoding="utf-8").split("\n# -----")[0]  # below are their parts
    functions = [node for node in ast.walk(ast.parse(for_users)) if isinstance(node, ast.FunctionDef)]
    arguments = {node.name: [argument.arg for argument in node.args.args] for node in functions}
    names = [name for name, given in arguments.items() if given[0] == "self" or given[:2] == ["model", "tokenizer"]]
    snippets = "".join(snippet for block in blocks(("python",), [page]) for snippet in block.values)

    assert {"maps", "columns", "to_bertviz"} <= set(names)  # so the search finds them
    assert [name for name in names if f"{name}(" not in snippets] == []


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
