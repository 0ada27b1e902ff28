"""The attention page in a real browser. What it shows is compared with the arrays it was made from."""

import base64
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinyseq.attention.pages import render

SOURCE = ["The", "black", "cat", "drank", "milk", ".", "</s>"]
TARGETS = [["El", "gato", "bebió", ".", "</s>"], ["Un", "gato", "negro", "bebió", ".", "</s>"]]
HEADS = {"encoder": (3, 4), "decoder": (2, 5), "cross": (2, 6)}  # layers, heads
REMOVED = ("encoder", 1, 3)
Attentions = dict[str, list[np.ndarray]]


def block(weights: np.ndarray) -> dict[str, Any]:
    """Writes weights of (layers, heads, rows, columns) as the page reads them."""
    layers, heads, rows, columns = weights.shape
    packed = base64.b64encode(np.round(weights * 65535).astype("<u2").tobytes()).decode()
    return {"layers": layers, "heads": heads, "rows": rows, "columns": columns, "weights": packed}


def draw_weights(shape: tuple[int, int, int, int], seed: int, causal: bool = False) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(scale=2, size=shape)
    if causal:
        logits = np.where(np.tri(*shape[-2:], dtype=bool), logits, -np.inf)
    weights = np.exp(logits)
    return weights / weights.sum(-1, keepdims=True)


def make_data(
    source: list[str] = SOURCE, targets: list[list[str]] = TARGETS, sizes: dict = HEADS
) -> tuple[dict[str, Any], Attentions]:
    """Returns the data of a page, and the weights in it: for each attention one array for each translation."""
    weights: Attentions = {"encoder": [draw_weights((*sizes["encoder"], len(source), len(source)), 1)]}
    weights["decoder"] = [
        draw_weights((*sizes["decoder"], len(t), len(t)), 2 + i, causal=True) for i, t in enumerate(targets)
    ]
    weights["cross"] = [draw_weights((*sizes["cross"], len(t), len(source)), 20 + i) for i, t in enumerate(targets)]
    if sizes is HEADS:
        weights[REMOVED[0]][0][REMOVED[1:]] = 0
    heads: dict[str, Any] = {"measured": "30 pairs of a file"}
    for name, (layers, count) in sizes.items():
        heads[name] = [
            [
                {
                    "entropy": 1.25 + layer + head / 10,
                    "distance": None if name == "cross" else 2.5,
                    "role": "end token" if head == 2 else "mixed",
                    "weights": {"previous word": 0.12, "end token": 0.61 if head == 2 else 0.2},
                    "importance": 0.043,
                    "removed": (name, layer, head) == REMOVED,
                }
                for head in range(count)
            ]
            for layer in range(layers)
        ]
    data = {
        "model": "a/model",
        "unit": "words",
        "source": {"text": " ".join(source[:-1]), "tokens": source},
        "encoder": block(weights["encoder"][0]),
        "hypotheses": [
            {
                "text": " ".join(target[:-1]),
                "score": -0.25 - i,
                "read": ["BEGIN", *target[:-1]],
                "written": target,
                "decoder": block(weights["decoder"][i]),
                "cross": block(weights["cross"][i]),
            }
            for i, target in enumerate(targets)
        ],
        "heads": heads,
        "without": None,
    }
    return data, weights


def add_without(data: dict[str, Any]) -> None:
    """Adds what three heads change; one head cannot be switched off, and all others change nothing."""
    same = data["hypotheses"][0]["text"]
    without = {
        name: [[{"text": same, "loss": 0.001} for _ in range(heads)] for _ in range(layers)]
        for name, (layers, heads) in HEADS.items()
    }
    without["encoder"][1][3] = None
    without["encoder"][2][0] = {"text": "El perro bebió .", "loss": 0.12}
    without["cross"][1][4] = {"text": "El gato negro bebió .", "loss": 0.5}
    without["decoder"][0][1] = {"text": "gato bebió .", "loss": -0.02}
    data["without"] = without


@pytest.fixture
def show(page, tmp_path) -> Callable[..., Any]:
    """Opens the page of some data, at an address."""

    def opened(data: dict[str, Any], address: str = "") -> Any:
        file = tmp_path / "attention.html"
        file.write_text(render("attention", "Attention", data), encoding="utf-8")
        page.goto(file.as_uri() + address)
        return page

    return opened


def shown_weights(page, panel: int = 0) -> list[list[str]]:
    table = page.locator("table.heat").nth(panel)
    return table.evaluate(
        "table => [...table.tBodies[0].rows].map(row => [...row.cells].slice(1).map(c => c.innerText))"
    )


def check_weights(page, expected: np.ndarray, panel: int = 0) -> None:
    """Compares a table with weights of (rows, columns): to the last of its three decimals."""
    shown = shown_weights(page, panel)
    assert (len(shown), len(shown[0])) == expected.shape
    masked = np.array([[text == "masked" for text in row] for row in shown])
    assert not expected[masked].any()
    numbers = np.array([[0.0 if text == "masked" else float(text) for text in row] for row in shown])
    np.testing.assert_allclose(numbers, expected, rtol=0, atol=0.0005 + 1e-5)


def lines_of(page, panel: int = 0) -> set[tuple[int, int]]:
    """The (row, column) of every line that a panel shows."""
    paths = page.locator(f'[data-panel="{panel}"] path')
    places = paths.evaluate_all("paths => paths.map(({ dataset }) => [Number(dataset.row), Number(dataset.column)])")
    return {(row, column) for row, column in places}


def word(page, side: str, index: int, panel: int = 0):
    return page.locator(f'[data-panel="{panel}"] .word[data-side="{side}"][data-index="{index}"]')


def in_words(weights: np.ndarray, words: list[str]) -> str:
    """The four greatest of the weights of one percent or more, in words."""
    order = sorted(range(len(words)), key=lambda i: -weights[i])
    return ", ".join(f"{words[i]} {100 * weights[i]:.0f}%" for i in order[:4] if weights[i] >= 0.01)


@pytest.mark.parametrize(
    "name, title, layer, head",
    [
        ("encoder", "Encoder", 2, 1),
        ("encoder", "Encoder", 0, 3),
        ("decoder", "Decoder", 0, 4),
        ("cross", "Cross", 1, 5),
    ],
)
def test_the_table_shows_the_weights_of_the_attention_layer_and_head_that_are_chosen(show, name, title, layer, head):
    data, weights = make_data()
    page = show(data)
    page.get_by_role("radio", name=title).check(force=True)
    page.get_by_role("combobox", name="Layer").select_option(str(layer))
    page.get_by_role("combobox", name="Head").select_option(str(head))
    for panel, expected in enumerate(weights[name]):
        check_weights(page, expected[layer, head], panel)


def test_the_mean_is_over_the_heads_that_are_there(show):
    data, weights = make_data()
    page = show(data, "#attention=encoder&layer=1&head=0")
    page.get_by_role("combobox", name="Head").select_option("mean of all heads")
    check_weights(page, weights["encoder"][0][1, :3].mean(0))
    page.get_by_role("combobox", name="Layer").select_option("2")
    check_weights(page, weights["encoder"][0][2].mean(0))


def test_rows_and_columns_of_the_table_are_named_by_the_words_that_look_and_those_they_look_at(show):
    data, _ = make_data()
    for address, rows, columns in (
        ("#attention=encoder", SOURCE, SOURCE),
        ("#attention=decoder", TARGETS[0], ["BEGIN", "El", "gato", "bebió", "."]),
        ("#attention=cross", TARGETS[0], SOURCE),
    ):
        table = show(data, address).locator("table.heat").first
        assert table.locator("th[scope=row]").all_inner_texts() == rows
        assert table.locator("th[scope=col]").all_inner_texts() == columns


def test_what_was_not_written_yet_is_masked_and_a_word_may_look_at_its_own_earlier_pieces(show):
    data, weights = make_data()
    first = weights["decoder"][0]
    first[:, :, 2, 3] = 0.25  # the third word has two pieces: the second has read the first
    data["hypotheses"][0]["decoder"] = block(first)
    shown = shown_weights(show(data, "#attention=decoder&layer=1&head=0"))
    for r, row in enumerate(shown):
        assert [text == "masked" for text in row] == [c > r and (r, c) != (2, 3) for c in range(5)]


def test_all_heads_of_the_chosen_attention_are_pictured_and_a_click_chooses_one(show):
    data, weights = make_data()
    page = show(data, "#attention=decoder")
    for name, (layers, heads) in HEADS.items():
        page.get_by_role("radio", name=name.capitalize()).check(force=True)
        assert page.locator("#overview canvas").count() == layers * heads
    page.get_by_role("button", name="layer 0, head 2: end token").click()
    check_weights(page, weights["cross"][0][0, 2])
    assert page.get_by_role("combobox", name="Head").input_value() == "2"
    assert page.locator("#overview [aria-pressed=true]").get_attribute("aria-label") == "layer 0, head 2: end token"
    # A pixel for each weight, as opaque as it is great
    alphas = page.evaluate(
        """() => { const canvas = document.querySelector('[data-layer="1"][data-head="4"] canvas');
        const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return [canvas.height, canvas.width, Array.from(image.data).filter((_, i) => i % 4 === 3)]; }"""
    )
    np.testing.assert_allclose(np.reshape(alphas[2], alphas[:2]) / 255, weights["cross"][0][1, 4], atol=0.003)


def test_pointing_at_a_word_leaves_only_its_lines_and_says_where_it_looks(show):
    data, weights = make_data()
    page = show(data, "#attention=cross&layer=1&head=3")
    expected = weights["cross"][0][1, 3]
    every = {(r, c) for r in range(5) for c in range(7) if expected[r, c] >= 0.01}
    assert lines_of(page) == every
    word(page, "row", 2).hover()
    assert lines_of(page) == {(r, c) for r, c in every if r == 2}
    live = page.locator("[aria-live=polite]").first
    assert live.inner_text() == f"bebió looks at {in_words(expected[2], SOURCE)}"
    assert page.locator('[data-panel="0"] tr.active th').inner_text() == "bebió"
    word(page, "column", 3).hover()
    assert lines_of(page) == {(r, c) for r, c in every if c == 3}
    assert live.inner_text() == f"drank is looked at by {in_words(expected[:, 3], TARGETS[0])}"
    page.locator("table.heat").first.locator("tbody tr").nth(1).locator("td").nth(5).hover()
    assert live.inner_text().startswith("gato looks at ")
    assert lines_of(page) == {(r, c) for r, c in every if r == 1}
    page.mouse.move(5, 5)
    assert lines_of(page) == every


def test_lines_lead_from_word_to_word_and_are_the_stronger_the_greater_the_weight(show):
    data, weights = make_data()
    page = show(data, "#attention=encoder&layer=0&head=1")
    expected = weights["encoder"][0][0, 1]
    lines = page.locator("path").evaluate_all(
        """paths => paths.map(path => { const ends = [0, path.getTotalLength()].map(length =>
        path.getPointAtLength(length).matrixTransform(path.getScreenCTM()));
        return { row: Number(path.dataset.row), column: Number(path.dataset.column),
            strength: Number(path.getAttribute("stroke-opacity")), left: ends[0].y, right: ends[1].y }; })"""
    )

    def middle(side: str, index: int) -> float:
        box = word(page, side, index).bounding_box()
        return box["y"] + box["height"] / 2

    for line in lines:
        assert line["left"] == pytest.approx(middle("row", line["row"]), abs=1)
        assert line["right"] == pytest.approx(middle("column", line["column"]), abs=1)
    strengths = {expected[line["row"], line["column"]]: line["strength"] for line in lines}
    assert [strengths[weight] for weight in sorted(strengths)] == sorted(strengths.values())


def test_no_word_moves_away_from_under_the_pointer(show):
    data, _ = make_data(source=[f"{i}" * 40 for i in range(7)], targets=[["a", "b" * 60, "</s>"]])
    page = show(data)
    before = word(page, "row", 1).bounding_box()
    word(page, "row", 1).hover()
    assert len(page.locator("#live").inner_text()) > 200
    assert word(page, "row", 1).bounding_box() == before


def test_a_click_holds_a_word_and_escape_frees_it(show):
    data, _ = make_data()
    page = show(data, "#attention=cross&layer=0&head=0")
    every = lines_of(page)
    word(page, "row", 1).click()
    word(page, "row", 3).hover()
    assert {r for r, _ in lines_of(page)} == {1}
    assert word(page, "row", 1).get_attribute("aria-pressed") == "true"
    page.mouse.move(5, 5)
    assert {r for r, _ in lines_of(page)} == {1}
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Escape")
    assert lines_of(page) == every
    assert page.locator("#maps [aria-pressed=true]").count() == 0


def test_the_keyboard_alone_does_everything(show):
    data, weights = make_data()
    add_without(data)
    page = show(data, "#attention=cross&layer=1&head=3")
    press = page.keyboard.press

    def tab_to(selector: str) -> None:
        for _ in range(30):
            press("Tab")
            if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"Tab does not lead to {selector}")

    tab_to("input[type=radio]")
    press("ArrowLeft")
    press("ArrowLeft")
    tab_to("#layer")
    press("ArrowDown")
    assert page.get_by_role("combobox", name="Layer").input_value() == "2"
    tab_to("#head")
    for _ in range(3):  # from the mean: head 3, as chosen before, was removed from layer 1
        press("ArrowDown")
    check_weights(page, weights["encoder"][0][2, 2])
    tab_to("#overview button")
    press("ArrowUp")  # head 2 of layer 1
    press("ArrowRight")  # head 3 of layer 1 was removed, and there is no other
    press("ArrowLeft")
    press("Enter")
    check_weights(page, weights["encoder"][0][1, 1])
    tab_to(".word")
    assert {r for r, _ in lines_of(page)} == {0}
    press("End")
    assert {r for r, _ in lines_of(page)} == {6}
    press("ArrowUp")
    press("ArrowRight")
    assert {c for _, c in lines_of(page)} == {5}
    press("Enter")
    press("ArrowUp")
    assert {c for _, c in lines_of(page)} == {5}, "the word is held"
    press("Escape")
    assert {c for _, c in lines_of(page)} == {4}
    tab_to("#matter button")
    press("Enter")
    check_weights(page, weights["cross"][0][1, 4])
    tab_to("#off")
    assert page.get_by_role("switch").is_checked()
    press("Space")
    assert not page.get_by_role("switch").is_checked()


def test_what_is_known_of_a_head_is_told_with_its_unit_and_what_it_was_measured_on(show):
    data, _ = make_data()
    page = show(data, "#attention=encoder&layer=1&head=2")
    panel = page.get_by_role("region", name="Encoder layer 1, head 2")
    facts = dict(zip(panel.locator("dt").all_inner_texts(), panel.locator("dd").all_inner_texts(), strict=True))
    assert {name: text.split("\n")[0] for name, text in facts.items()} == {
        "Role": "end token",
        "Entropy": "2.45 bits",
        "Distance": "2.50 words",
        "Importance": "0.0430 nats",
    }
    bars = panel.locator("li").all()
    assert [bar.inner_text().split() for bar in bars] == [["previous", "word", "12%"], ["end", "token", "61%"]]
    assert panel.get_by_text("Measured over 30 pairs of a file.").is_visible()
    page.get_by_role("radio", name="Cross").check(force=True)
    assert "Distance" not in page.locator("#measures").inner_text()


def test_a_head_switched_off_shows_the_other_translation_with_its_words_marked(show):
    data, _ = make_data()
    add_without(data)
    page = show(data, "#attention=encoder&layer=2&head=0")
    page.get_by_role("switch", name="Switch this head off").check()
    result = page.locator("#without")
    assert result.locator("[dir=auto]").all_text_contents() == ["El  gone: gato bebió .", "El  new: perro bebió ."]
    assert result.locator("del").text_content() == " gone: gato"
    assert result.locator("ins").text_content() == " new: perro"
    assert "falls by 0.120 per piece" in result.inner_text()
    page.reload()
    assert page.get_by_role("switch").is_checked()
    page.get_by_role("combobox", name="Head").select_option("1")
    assert not page.get_by_role("switch").is_checked()
    page.get_by_role("switch").check()
    assert "The translation stays the same." in result.inner_text()
    assert "falls by 0.001 per piece" in result.inner_text()


def test_heads_that_change_the_translation_are_listed_those_missed_most_first(show):
    data, _ = make_data()
    add_without(data)
    page = show(data)
    section = page.get_by_role("region", name="Heads that change the translation when switched off")
    rows = [row.locator("th, td").all_inner_texts() for row in section.locator("tbody tr").all()]
    assert rows == [
        ["Cross layer 1, head 4", "0.500", "El gato negro bebió ."],
        ["Encoder layer 2, head 0", "0.120", "El perro bebió ."],
        ["Decoder layer 0, head 1", "\N{MINUS SIGN}0.020", "gato bebió ."],
    ]
    heads = sum(layers * heads for layers, heads in HEADS.values())
    assert section.get_by_text(f"3 of the {heads - 1} heads").is_visible()
    section.get_by_role("button", name="Decoder layer 0, head 1").click()
    assert page.get_by_role("switch").is_checked()
    assert "rises by 0.020 per piece" in page.locator("#without").inner_text()


def test_that_no_head_changes_the_translation_is_said(show):
    data, _ = make_data()
    add_without(data)
    for heads in (heads for name in HEADS for heads in data["without"][name]):
        heads[:] = [without and {"text": "El gato bebió .", "loss": -0.0004} for without in heads]
    page = show(data, "#attention=cross&layer=1&head=5&off=1")
    section = page.get_by_role("region", name="Heads that change the translation when switched off")
    assert section.get_by_text(re.compile(r"^None of the 33 heads")).is_visible()
    assert section.locator("table").count() == 0
    assert "changes by less than 0.001 per piece" in page.locator("#without").inner_text()


def test_a_head_that_cannot_be_switched_off_says_so(show):
    data, _ = make_data()
    page = show(data, "#attention=encoder&layer=0&head=0&off=1")
    assert page.get_by_role("switch").is_disabled()
    assert not page.get_by_role("switch").is_checked()
    assert page.get_by_text("This head cannot be switched off.").is_visible()
    assert page.get_by_text("Heads that change the translation").is_hidden()
    page.get_by_role("combobox", name="Head").select_option("mean of all heads")
    assert page.get_by_role("switch").count() == 0


def test_each_translation_has_a_panel_of_its_own_with_its_score(show):
    data, weights = make_data()
    page = show(data, "#attention=cross&layer=0&head=1")
    for panel, (target, score) in enumerate(zip(TARGETS, ("0.250", "1.250"), strict=True)):
        region = page.get_by_role("region", name=f"{panel + 1}. {' '.join(target[:-1])}")
        assert region.get_by_text(f"\N{MINUS SIGN}{score} log-probability per piece").is_visible()
        assert region.locator("th[scope=row]").all_inner_texts() == target
        check_weights(page, weights["cross"][panel][0, 1], panel)
    left, right = (page.locator(f'[data-panel="{panel}"]').bounding_box() for panel in (0, 1))
    assert left["y"] == right["y"]
    before = lines_of(page, 0)
    word(page, "row", 4, panel=1).hover()
    assert {r for r, _ in lines_of(page, 1)} == {4}
    assert lines_of(page, 0) == before
    page.get_by_role("radio", name="Encoder").check(force=True)
    assert page.locator("[data-panel]").count() == 1, "there is but one source"


def test_a_score_that_is_not_known_is_not_shown(show):
    data, _ = make_data(targets=TARGETS[:1])
    data["hypotheses"][0]["score"] = None
    page = show(data)
    assert page.get_by_role("region", name="In the translation").is_visible()
    assert "log-probability" not in page.locator("#maps").inner_text()


def test_a_removed_head_is_shown_but_cannot_be_chosen(show):
    data, weights = make_data()
    page = show(data, "#attention=encoder&layer=1&head=3")  # not even by the address
    check_weights(page, weights["encoder"][0][1, :3].mean(0))
    assert page.get_by_role("button", name="layer 1, head 3: removed").is_disabled()
    assert page.locator("#head option", has_text="3: removed").is_disabled()
    page.get_by_role("combobox", name="Layer").select_option("0")
    page.get_by_role("combobox", name="Head").select_option("3")
    page.get_by_role("combobox", name="Layer").select_option("1")
    assert page.get_by_role("combobox", name="Head").input_value() == "mean"


def test_arrows_among_the_pictures_lead_over_a_removed_head(show):
    data, _ = make_data()
    for head in (1, 2):
        data["heads"]["decoder"][0][head]["removed"] = True
    page = show(data, "#attention=decoder&layer=0&head=0")
    page.get_by_role("button", name="layer 0, head 0: mixed").focus()
    for key, layer, head in (("ArrowRight", 0, 3), ("ArrowLeft", 0, 0), ("ArrowUp", 0, 0), ("ArrowDown", 1, 0)):
        page.keyboard.press(key)
        focused = page.evaluate("Object.values(document.activeElement.dataset)")
        assert focused == [str(layer), str(head)], key


def test_the_address_keeps_what_is_chosen(show):
    data, weights = make_data()
    page = show(data)
    page.get_by_role("radio", name="Decoder").check(force=True)
    page.get_by_role("combobox", name="Layer").select_option("0")
    page.get_by_role("combobox", name="Head").select_option("3")
    word(page, "column", 1, panel=1).click()
    address = page.evaluate("location.hash")
    page.reload()
    assert page.evaluate("location.hash") == address
    assert page.get_by_role("radio", name="Decoder").is_checked()
    check_weights(page, weights["decoder"][1][0, 3], panel=1)
    assert {c for _, c in lines_of(page, 1)} == {1}
    page.evaluate("location.hash = 'attention=cross&layer=0&head=2'")
    page.get_by_role("heading", name="Cross layer 0, head 2").wait_for()
    check_weights(page, weights["cross"][0][0, 2])


@pytest.mark.parametrize(
    "address", ["#", "#nonsense", "#attention=__proto__&layer=-1&head=99&off=1&word=7.row.0", "#word=0.constructor.1"]
)
def test_an_address_that_fits_nothing_shows_the_page_as_it_begins(show, address):
    data, weights = make_data()
    page = show(data, address)
    check_weights(page, weights["cross"][0][1].mean(0))
    assert page.locator("#maps [aria-pressed=true]").count() == 0


def test_words_may_hold_anything_and_run_nothing(show):
    words = [
        "<img src=x onerror=document.title='run'>",
        "</script><script>document.title='run'</script>",
        "\"quoted' & &amp; `${1}`",
        "مرحبا",
        "👩‍👩‍👧‍👦",
        "w" * 60,
        "</s>",
    ]
    data, _ = make_data(source=words, targets=[[*words[:5], "</s>"]])
    add_without(data)
    data["without"]["cross"][0][0] = {"text": " ".join(words), "loss": 0.3}
    data["model"] = data["heads"]["measured"] = words[0]
    data["heads"]["cross"][0][0]["role"] = words[1]
    page = show(data, "#attention=cross&layer=0&head=0&off=1")
    assert page.locator("table.heat th[scope=col]").all_inner_texts() == words
    word(page, "column", 0).hover()
    assert page.locator("#live").inner_text().startswith(f"{words[0]} is looked at by ")
    assert page.title() == "Attention"
    assert page.locator("img, main script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def relative_luminance(color: str) -> float:
    """As WCAG 2.2 defines it, of a colour as the browser computes it."""
    numbers = [float(number) for number in re.findall(r"[\d.]+", color)[:3]]
    channels = [number if color.startswith("color(srgb") else number / 255 for number in numbers]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_and_words_can_be_read_at_every_weight_in_both_themes(show, page, scheme):
    page.emulate_media(color_scheme=scheme)
    data, _ = make_data(
        source=[f"w{i}" for i in range(51)], targets=[["a", "</s>"]], sizes=dict.fromkeys(HEADS, (1, 1))
    )
    data["encoder"] = block(np.repeat(np.linspace(0, 1, 51)[None], 51, axis=0)[None, None])
    add = {name: [[{"text": "b", "loss": 0.1}]] for name in HEADS}
    show({**data, "without": add}, "#attention=encoder&head=0&off=1&word=0.row.0")
    pairs = page.evaluate(
        """() => Array.from(document.querySelectorAll(
            "tbody tr:first-child td, .word[data-side=column], .word.active, del, ins, #live, small, :checked + span"))
            .map((part) => { let behind = part;
            while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
            return [getComputedStyle(part).color, getComputedStyle(behind).backgroundColor]; })"""
    )
    assert len(pairs) > 100
    assert len({behind for _, behind in pairs}) > 90
    for pair in pairs:
        low, high = sorted(map(relative_luminance, pair))
        assert (high + 0.05) / (low + 0.05) >= 4.5, pair


def test_the_theme_follows_the_system_until_the_button_changes_it(show, page):
    data, _ = make_data()

    def luminance() -> float:
        return relative_luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    page.emulate_media(color_scheme="dark")
    show(data)
    assert luminance() < 0.1
    page.emulate_media(color_scheme="light")
    assert luminance() > 0.8
    page.get_by_role("button", name="Dark theme").click()
    assert luminance() < 0.1
    page.get_by_role("button", name="Light theme").click()
    assert luminance() > 0.8


def test_nothing_moves_for_those_who_ask_for_less_motion(show, page):
    data, _ = make_data()
    page.emulate_media(reduced_motion="reduce")
    show(data)
    duration = "part => getComputedStyle(part).transitionDuration"
    assert word(page, "row", 0).evaluate(duration) == "0s"
    page.emulate_media(reduced_motion="no-preference")
    assert word(page, "row", 0).evaluate(duration) != "0s"


def test_all_that_can_be_reached_has_a_name_and_the_page_has_landmarks(show, page):
    data, _ = make_data()
    add_without(data)
    show(data, "#attention=cross&layer=0&head=2")
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]

    def properties(node: dict) -> dict[str, Any]:
        return {entry["name"]: entry["value"].get("value") for entry in node.get("properties", [])}

    reachable = [node for node in nodes if properties(node).get("focusable") and not node["ignored"]]
    names = {(node["role"]["value"], node["name"]["value"]) for node in reachable}
    assert all(name for _, name in names), names
    assert {role for role, _ in names} >= {"radio", "combobox", "button", "switch", "group"}
    roles = [node["role"]["value"] for node in nodes if not node["ignored"]]
    assert {"banner", "main", "contentinfo", "region", "table", "columnheader", "rowheader", "caption"} <= {*roles}
    assert page.get_by_role("heading", level=1).count() == 1


def test_a_narrow_screen_scrolls_no_page_sideways(show, page):
    page.set_viewport_size({"width": 390, "height": 844})
    data, _ = make_data(
        source=[f"word{i}" * 6 for i in range(40)], targets=[["x" * 60, *"abc", "</s>"], ["y", "</s>"]]
    )
    add_without(data)
    show(data)
    for attention in ("Encoder", "Decoder", "Cross"):
        page.get_by_role("radio", name=attention).check(force=True)
        assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("layers, heads, words", [(1, 1, 1), (12, 16, 60)])
def test_the_least_and_the_greatest_fit(show, page, layers, heads, words):
    data, weights = make_data(
        source=[f"s{i}" for i in range(words)],
        targets=[[f"t{i}" for i in range(words)]],
        sizes=dict.fromkeys(HEADS, (layers, heads)),
    )
    show(data, f"#attention=decoder&layer={layers - 1}&head={heads - 1}")
    check_weights(page, weights["decoder"][0][-1, -1])
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#overview button").count() == layers * heads


@pytest.mark.parametrize(
    "directive, request_it",
    [
        ("connect-src", "fetch(url).catch(() => {})"),
        ("img-src", "new Image().src = url"),
        ("script-src-elem", 'document.head.append(Object.assign(document.createElement("script"), { src: url }))'),
    ],
)
def test_the_browser_refuses_whatever_a_script_of_the_page_might_ask_for(browser, tmp_path, directive, request_it):
    file = tmp_path / "attention.html"
    file.write_text(render("attention", "Attention", make_data()[0]), encoding="utf-8")
    page = browser.new_page()  # not the fixture, which would take the refusal for an error of the page
    page.goto(file.as_uri())
    refused = page.evaluate(
        f"""() => new Promise((done) => {{
        document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
        setTimeout(() => done("nothing"), 3000);
        const url = "http://127.0.0.1:9/x";
        {request_it}; }})"""
    )
    page.close()
    assert refused == directive


def test_a_page_without_its_data_is_small():
    assert len(render("attention", "Attention", {}).encode()) < 40_000
