"""The page of a trace in a real browser: every step by keyboard, its numbers those of the trace."""

import copy

import numpy as np
import pytest
from taught import save_taught_model
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from tinyseq.attention.pages import render
from tinyseq.attention.trace import trace

SOURCE, TARGET = "Two dogs play.", "Zwei Hunde spielen."
SHOWN = """() => {
  const text = (id) => document.getElementById(id).innerText;
  return {
    ...Object.fromEntries(["title", "text", "formula", "shape", "cut"].map((id) => [id, text(id)])),
    place: document.getElementById("place").textContent, // read aloud: not all of it is seen
    inputs: [...document.querySelectorAll("#inputs a")].map((link) => link.hash.slice(1)),
    inList: document.querySelector("#list [aria-current=step]").hash.slice(1),
    tab: document.querySelector("#heads [aria-selected=true]")?.innerText,
    table: [...document.querySelector("#numbers table").rows].map((row) => [...row.cells].map((c) => c.innerText)),
  };
}"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    options = {"encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 2}
    save_taught_model(folder, {SOURCE: TARGET}, seed=0, vocab_size=300, max_position_embeddings=50, **options)
    found = trace(AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder), SOURCE)
    assert found.translation == TARGET
    return found


@pytest.fixture
def show(page, tmp_path):
    """Opens the page of a trace, at a step."""

    def show(trace, step=""):
        file = tmp_path / "trace.html"
        file.write_text(render("trace", "a title", trace.to_data()), encoding="utf-8")
        page.goto(f"{file.as_uri()}#{step}")
        return page

    return show


def number(text):
    return -np.inf if text == "masked" else float(text.replace("\N{MINUS SIGN}", "-"))


def assert_shows(shown, step, matrix):
    """The page shows `step`, and of its numbers `matrix`, (rows, columns), the first eight columns if it has many."""
    for part in ("title", "text", "formula", "shape"):
        assert shown[part] == getattr(step, part)
    assert shown["inputs"] == list(step.inputs)
    assert shown["inList"] == step.name
    header, *lines = shown["table"]
    if step.chosen is not None:
        assert [line[0].removesuffix(" taken") for line in lines] == list(step.rows)
        assert lines[step.chosen][0].endswith(" taken")
        numbers = [[number(line[3]), number(line[2])] for line in lines]  # logit and probability
    else:
        assert [line[0] for line in lines] == list(step.rows)
        if step.columns:
            labels = step.columns[:8] if step.axes[-1] == "vocab" else step.columns
            assert header[1:] == [*labels, *["sum"] * step.sums_to_one]
        if step.sums_to_one:
            np.testing.assert_allclose([number(line.pop()) for line in lines], matrix.sum(-1), atol=1e-4)
        numbers = [[number(text) for text in line[1:]] for line in lines]
    is_cut = step.axes[-1] not in ("source_len", "target_len", "logit and probability")
    expected = matrix[:, :8] if is_cut else matrix
    expected = np.where(expected < -1e30, -np.inf, expected)
    np.testing.assert_allclose(numbers, expected, atol=1e-4, err_msg=step.name)
    assert ("columns are shown" in shown["cut"]) == (expected.shape != matrix.shape), step.name


def test_the_arrow_keys_go_through_all_steps_and_heads_and_every_number_is_the_trace_s(show, found):
    page = show(found)
    for index, step in enumerate(found.steps):
        shown = page.evaluate(SHOWN)
        assert shown["place"] == f"Step {index + 1} of {len(found.steps)} · {step.group}: {step.title}"
        if not step.tabs:
            assert_shows(shown, step, step.values if step.values.ndim == 2 else step.values[:, None])
        else:
            page.focus("#heads [tabindex='0']")
            for label, matrix in zip(step.tabs, step.values, strict=True):
                shown = page.evaluate(SHOWN)
                assert shown["tab"] == label
                assert_shows(shown, step, matrix)
                page.keyboard.press("ArrowRight")  # in the tabs: the next head, and after the last the first
            page.focus("#next")
        page.keyboard.press("ArrowRight")
    assert page.is_visible("[aria-current=step]")
    assert page.is_disabled("#next")
    assert page.inner_text("#title") == "The text"
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#title") == found.steps[-2].title


def test_the_head_that_was_chosen_stays_from_step_to_step(show, found):
    page = show(found, "encoder.1.self_attn.scores")
    page.click("text=head 3")
    page.click("#next")
    assert page.inner_text("#heads [aria-selected=true]") == "head 3"
    step = found["encoder.1.self_attn.scaled"]
    assert_shows(page.evaluate(SHOWN), step, step.values[3])


def test_a_step_is_an_address_and_a_step_s_origins_are_links(show, found):
    page = show(found, "decoder.0.cross_attn.k")
    page.focus("#inputs a")
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('title').innerText === 'LayerNorm'")
    assert page.get_attribute("[aria-current=step]", "href") == "#encoder.1.ffn.norm"
    assert page.evaluate("document.activeElement.id") == "title"  # not lost with the link
    page.go_back()
    page.wait_for_selector("#title:text-is('Cross-attention: K, the keys')")
    page.click("text=Encoder layer 0")
    page.click("details[open] >> text=Residual sum >> nth=0")
    page.wait_for_selector("#title:text-is('Residual sum')")
    assert page.url.endswith("#encoder.0.self_attn.residual")


@pytest.mark.parametrize("step", ["no.such.step", "%E0%A4%A"])
def test_an_address_that_names_no_step_shows_the_first(step, show, found):
    assert show(found, step).inner_text("#title") == found.steps[0].title


def test_bars_are_as_long_as_the_probabilities_and_the_piece_that_is_taken_stands_out(show, found):
    step = found["decoding.1"]
    page = show(found, step.name)
    backgrounds = page.locator("#numbers i").evaluate_all("all => all.map((i) => i.style.getPropertyValue('--share'))")
    np.testing.assert_allclose([float(share.strip("%")) for share in backgrounds], 100 * step.values[:, 1], atol=0.01)
    assert page.locator("#numbers tr.taken th").inner_text().startswith(step.rows[step.chosen])


def test_texts_are_shown_as_they_are_and_never_run(show, found):
    evil = copy.deepcopy(found)
    evil.source = evil.steps[0].rows[0] = "<img src=x onerror=alert(1)></script><b>&amp;"
    page = show(evil)
    assert page.inner_text("#source") == evil.source
    assert page.evaluate(SHOWN)["table"][1][0] == evil.source


def test_the_page_is_light_and_dark_as_the_system_or_the_button_says(show, found):
    page = show(found)
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(background)
    assert dark != light
    page.click("#theme")
    assert page.evaluate(background) == light


def test_what_was_noticed_is_told(show, found):
    text = show(found).inner_text("#notes")
    assert all(note in text for note in found.notes)


def test_on_a_phone_nothing_but_the_table_scrolls_sideways(show, found):
    page = show(found, "encoder.0.self_attn.weights")
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.focus("#numbers")
    page.keyboard.press("ArrowRight")
    assert page.url.endswith("#encoder.0.self_attn.weights")
