"""Options: recipe, command line, and what happens to a misspelt one."""

from dataclasses import dataclass, field

import pytest

from tinyseq import TinySeqConfig
from tinyseq.training.options import RunOptions
from tinyseq.training.recipe import model_options, parse_options, read_recipe


@dataclass
class Options:
    files: list[str] | None = field(default=None, metadata={"help": "files"})
    learning_rate: float = field(default=0.5, metadata={"help": "rate"})
    verbose: bool = field(default=False, metadata={"help": "talk"})


def parse(*arguments):
    return parse_options([Options, model_options()], list(arguments), "A test.", prog="train.py")


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_command_line_wins_over_the_recipe_and_the_recipe_over_the_defaults(tmp_path):
    recipe = write(tmp_path / "r.yaml", "learning_rate: 1e-3\nd_model: 64\nfiles: [a.en, a.de]\nverbose: true\n")
    options, architecture = parse(recipe, "--d_model", "32", "--files", "b.tsv")
    assert options == Options(files=["b.tsv"], learning_rate=1e-3, verbose=True)
    assert architecture.d_model == 32
    assert architecture.encoder_layers == TinySeqConfig().encoder_layers


def test_a_misspelt_option_is_refused_with_the_nearest_name(capsys):
    with pytest.raises(SystemExit, match="2"):
        parse("--learning_rat", "1")
    assert "there is no option '--learning_rat'; did you mean '--learning_rate'?" in capsys.readouterr().err


def test_a_misspelt_option_in_a_recipe_is_refused_with_file_and_nearest_name(tmp_path, capsys):
    recipe = write(tmp_path / "mine.yaml", "d_modle: 64\n")
    with pytest.raises(SystemExit, match="2"):
        parse(recipe)
    assert "mine.yaml: there is no option 'd_modle'; did you mean 'd_model'?" in capsys.readouterr().err


def test_a_value_of_the_wrong_kind_in_a_recipe_is_refused_by_name(tmp_path, capsys):
    recipe = write(tmp_path / "r.yaml", "d_model: wide\n")
    with pytest.raises(SystemExit, match="2"):
        parse(recipe)
    assert "--d_model" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "message"), [("a: [", "is not YAML"), ("- a\n- b\n", "option: value")])
def test_a_recipe_that_is_no_mapping_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_recipe(write(tmp_path / "r.yaml", text))


def test_an_unknown_recipe_is_refused_with_those_that_come_along(capsys):
    with pytest.raises(SystemExit, match="2"):
        parse("no_such_recipe")
    message = capsys.readouterr().err
    assert "no_such_recipe" in message
    assert "demo" in message


def test_every_option_of_the_architecture_has_an_explanation_and_the_defaults_of_the_config():
    config = TinySeqConfig()
    import dataclasses

    fields = dataclasses.fields(model_options())
    assert {"d_model", "normalize_before", "position_embedding_type", "dropout"} <= {field.name for field in fields}
    for option in fields:
        assert option.metadata["help"]
        assert option.default == getattr(config, option.name)


def test_every_recipe_that_comes_along_has_known_options_only():
    from pathlib import Path

    recipes = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))
    assert recipes
    for recipe in recipes:
        options, architecture = parse_options([RunOptions, model_options()], [str(recipe)], "", prog="train.py")
        assert options.max_steps
        TinySeqConfig(**vars(architecture))
