// The attention page: choose a head, see where each word looks. A "kind" is one of the three attentions; a "map" one
// head's weights, a row for each word that looks and a column for each word it can look at.

const data = pageData();
const KINDS = {
  encoder: {
    name: "Encoder",
    says: "Encoder self-attention: each word of the source looks at every word of the source.",
  },
  decoder: {
    name: "Decoder",
    says: "Decoder self-attention: each word, while it is being written, looks at what has been written before it.",
  },
  cross: {
    name: "Cross",
    says: "Cross-attention: each word of the translation, while it is being written, looks at the source.",
  },
};
const MEAN = "mean";
const FAINTEST = 0.01; // lines lighter than this could not be seen
const STRONG = 0.6; // from here on a cell is so dark (so bright, in the dark theme) that its number changes colour
const HINT = "Point at a word, or go to it with Tab and arrows, to see where it looks. Click or Enter holds it.";

const byId = (id) => document.getElementById(id);
const percent = (share) => `${Math.round(100 * share)}%`;
const signed = (number, digits = 3) => number.toFixed(digits).replace("-", "\u2212");
const times = (count, make) => Array.from({ length: count }, (_, i) => make(i));

/** What is chosen; all of it stands in the address. A word is [panel, "row" or "column", index], held or null. */
const chosen = { kind: "cross", layer: 0, head: MEAN, off: false, word: null };

// ---------------------------------------------------------------- the numbers

/** Returns a block's weights as numbers from 0 to 1, decoded once. */
function weightsOf(block) {
  if (!block.decoded) {
    const bytes = Uint8Array.from(atob(block.weights), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    block.decoded = times(bytes.length / 2, (i) => view.getUint16(2 * i, true) / 65535);
  }
  return block.decoded;
}

/** Returns the weights of a map as an array of rows. The mean is over the heads that are there. */
function mapOf(block, kind, layer, head) {
  const weights = weightsOf(block);
  const there = data.heads[kind][layer].flatMap((measures, i) => (measures.removed ? [] : [i]));
  const heads = head === MEAN ? there : [head];
  const at = (h, r, c) => weights[((layer * block.heads + h) * block.rows + r) * block.columns + c];
  const mean = (r, c) => heads.reduce((sum, h) => sum + at(h, r, c), 0) / Math.max(heads.length, 1);
  return times(block.rows, (r) => times(block.columns, (c) => mean(r, c)));
}

/** Returns whether no head of a block looks from row r to column c: the word there was not written yet. */
function isMasked(block, r, c) {
  const size = block.rows * block.columns;
  const inEachHead = times(block.layers * block.heads, (i) => weightsOf(block)[i * size + r * block.columns + c]);
  return inEachHead.every((weight) => weight === 0);
}

/** Returns what a kind of attention is drawn as: one panel for the source, or one for each translation. */
function panelsOf(kind) {
  const { tokens } = data.source;
  if (kind === "encoder") {
    return [{ title: "In the source", score: null, block: data.encoder, rows: tokens, columns: tokens }];
  }
  return data.hypotheses.map((one, i, { length }) => ({
    title: length > 1 ? `${i + 1}. ${one.text}` : "In the translation",
    score: one.score,
    block: one[kind],
    rows: one.written,
    columns: kind === "cross" ? tokens : one.read,
  }));
}

/** Returns the entry of the head that is chosen in a table of [layer][head], or null for the mean. */
const ofHead = (table) => (chosen.head === MEAN ? null : table[chosen.kind][chosen.layer][chosen.head]);

/** Returns the name of a head, or of the mean of a layer's heads. */
const nameOf = (kind, layer, head) =>
  `${KINDS[kind].name} layer ${layer}, ${head === MEAN ? "mean of all heads" : `head ${head}`}`;

// ---------------------------------------------------------------- the address

/** Takes what is chosen from the address; what does not fit this page is left at its default. */
function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const whole = (text, end) => (/^\d+$/.test(text ?? "") && Number(text) < end ? Number(text) : null);
  const kind = asked.get("attention");
  chosen.kind = Object.hasOwn(KINDS, kind ?? "") ? kind : "cross";
  const table = data.heads[chosen.kind];
  chosen.layer = whole(asked.get("layer"), table.length) ?? table.length - 1;
  chosen.head = whole(asked.get("head"), table[chosen.layer].length) ?? MEAN;
  if (chosen.head !== MEAN && ofHead(data.heads).removed) chosen.head = MEAN;
  chosen.off = asked.get("off") === "1" && Boolean(data.without && ofHead(data.without));
  const [panel, side, index] = (asked.get("word") ?? "").split(".");
  const words = panelsOf(chosen.kind)[whole(panel, Infinity)]?.[{ row: "rows", column: "columns" }[side]];
  const place = whole(index, words?.length ?? 0);
  chosen.word = place === null ? null : [Number(panel), side, place];
}

/** Writes what is chosen into the address, so that a reload or a link shows the same. */
function writeAddress() {
  const { kind, layer, head, off, word } = chosen;
  const parts = { attention: kind, layer, head, ...(off && { off: 1 }), ...(word && { word: word.join(".") }) };
  history.replaceState(null, "", `#${new URLSearchParams(parts)}`);
}

/** Chooses something, and shows it. Another map lets go of the word, another head is switched on. */
function choose(changes) {
  Object.assign(chosen, { off: false, word: null }, changes);
  const layers = data.heads[chosen.kind];
  chosen.layer = Math.min(chosen.layer, layers.length - 1);
  if (chosen.head !== MEAN && (layers[chosen.layer][chosen.head]?.removed ?? true)) chosen.head = MEAN;
  show();
}

// ---------------------------------------------------------------- what does not depend on a word

/** Writes the frame of the page: the sentence, the kinds of attention, the heads that matter. */
function drawFrame() {
  byId("source").textContent = data.source.text;
  byId("translation").textContent = data.hypotheses[0].text;
  byId("model").textContent = `Model: ${data.model}. Maps of ${data.unit}. Layers and heads are counted from 0.`;
  for (const [kind, { name }] of Object.entries(KINDS)) {
    const radio = element("input", { type: "radio", name: "kind", value: kind });
    radio.addEventListener("change", () => choose({ kind }));
    byId("kinds").append(element("label", {}, radio, element("span", {}, name)));
  }
  const onChange = (id, changes) => byId(id).addEventListener("change", ({ target }) => choose(changes(target)));
  onChange("layer", ({ value }) => ({ layer: Number(value) }));
  onChange("head", ({ value }) => ({ head: value === MEAN ? MEAN : Number(value) }));
  onChange("off", ({ checked }) => ({ off: checked, word: chosen.word }));
  const heads = Object.keys(KINDS).flatMap((kind) => data.heads[kind].map(({ length }) => length));
  document.querySelector("main").style.setProperty("--most", Math.max(...heads));
  drawMatter();
}

/** Fills the controls with what there is to choose, and marks what is chosen. */
function drawControls() {
  const layers = data.heads[chosen.kind];
  for (const radio of document.getElementsByName("kind")) radio.checked = radio.value === chosen.kind;
  byId("says").textContent = KINDS[chosen.kind].says;
  byId("layer").replaceChildren(...layers.map((_, i) => element("option", { value: i }, String(i))));
  byId("layer").value = chosen.layer;
  const heads = layers[chosen.layer].map(({ role, removed }, i) => {
    return element("option", { value: i, disabled: removed }, `${i}: ${removed ? "removed" : role}`);
  });
  byId("head").replaceChildren(element("option", { value: MEAN }, "mean of all heads"), ...heads);
  byId("head").value = chosen.head;
}

/** Draws a small picture of every head of the chosen kind, a row for each layer. */
function drawOverview() {
  const { kind } = chosen;
  const layers = data.heads[kind];
  const { block } = panelsOf(kind)[0];
  const grid = element("div", { class: "thumbs", role: "group", "aria-label": "Heads, a row for each layer" });
  const most = Math.max(...layers.map((heads) => heads.length));
  grid.style.setProperty("--heads", most);
  grid.append(element("span"), ...times(most, (head) => element("span", { class: "count" }, String(head))));
  layers.forEach((heads, layer) => {
    grid.append(element("span", { class: "count" }, String(layer)));
    heads.forEach(({ role, removed }, head) => {
      const text = removed ? "removed" : role;
      const label = `layer ${layer}, head ${head}: ${text}`;
      const picture = thumbnail(mapOf(block, kind, layer, head));
      const attributes = { type: "button", "aria-label": label, title: label, disabled: removed };
      const thumb = element("button", attributes, picture, element("span", {}, text));
      Object.assign(thumb.dataset, { layer, head });
      thumb.addEventListener("click", () => choose({ layer, head }));
      thumb.style.gridColumn = head + 2;
      grid.append(thumb);
    });
  });
  grid.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    let thumb = event.target;
    do { // over the heads that were removed
      const [layer, head] = [Number(thumb.dataset.layer) + step[0], Number(thumb.dataset.head) + step[1]];
      thumb = grid.querySelector(`[data-layer="${layer}"][data-head="${head}"]`);
    } while (thumb?.disabled);
    thumb?.focus();
  });
  byId("overview").replaceChildren(grid);
  byId("overview").dataset.kind = kind;
}

/** Returns a map as a picture of one pixel for each weight. */
function thumbnail(map) {
  const canvas = element("canvas", { width: map[0].length, height: map.length, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  map.flat().forEach((weight, i) => image.data.set([63, 120, 240, 255 * weight], 4 * i)); // a blue for both themes
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Marks the chosen head among the small pictures; Tab leads to it, or to the first that is there. */
function markOverview() {
  const thumbs = [...byId("overview").querySelectorAll("button")];
  const isChosen = ({ dataset }) => Number(dataset.layer) === chosen.layer && dataset.head === String(chosen.head);
  const entry = thumbs.find(isChosen) ?? thumbs.find((thumb) => !thumb.disabled);
  for (const thumb of thumbs) {
    thumb.setAttribute("aria-pressed", isChosen(thumb));
    thumb.tabIndex = thumb === entry ? 0 : -1;
  }
}

/** Writes what the chosen head does, as it was measured, and its switch. */
function drawMeasures() {
  byId("one-title").textContent = nameOf(chosen.kind, chosen.layer, chosen.head);
  const head = ofHead(data.heads);
  const note = (text) => element("p", { class: "muted" }, text);
  byId("measures").replaceChildren(...(head ? measuresOf(head) : [note("Choose one head to see what it does.")]));
  if (head) byId("measures").append(note(`Measured over ${data.heads.measured}.`));
  byId("switch").hidden = !head;
  const without = data.without && ofHead(data.without);
  byId("off").disabled = !without;
  byId("off").checked = chosen.off;
  byId("without").replaceChildren();
  if (!without) byId("without").append(note("This head cannot be switched off."));
  if (chosen.off) byId("without").append(...comparison(without));
}

/** Returns what is known of a head: figures with what they mean, and a bar for each place its attention goes to. */
function measuresOf({ role, entropy, distance, importance, weights }) {
  const known = (number, digits, unit = "") => (number === null ? null : signed(number, digits) + unit);
  const facts = [
    ["Role", role, Object.hasOwn(weights, role) ? "gets over half of its attention" : "no place gets over half"],
    ["Entropy", known(entropy, 2, " bits"), "0: it looks at one place only"],
    ["Distance", known(distance, 2, " words"), "how far away it looks, on average"],
    ["Importance", known(importance, 4, " nats"), "what the loss gains without it, estimated"],
  ].filter(([, value]) => value !== null);
  const bars = Object.entries(weights).filter(([, share]) => share !== null).map(([place, share]) => {
    const parts = [element("span", {}, place), element("i"), element("b", {}, percent(share))];
    return element("li", { style: `--share: ${100 * share}%` }, ...parts);
  });
  return [
    element("dl", {}, ...facts.flatMap(([name, value, help]) => {
      return [element("dt", {}, name), element("dd", {}, value, element("small", { class: "muted" }, help))];
    })),
    element("h3", {}, "Where its attention goes"),
    element("ul", { class: "bars" }, ...bars),
  ];
}

/** Returns the translation as it was and as it is without a head, what differs marked in both. */
function comparison({ text, loss }) {
  const [before, after] = difference(data.hypotheses[0].text, text);
  const line = (name, parts, mark, said) => {
    const words = parts.map(([word, same]) => {
      return same ? word : element(mark, {}, element("span", { class: "sr" }, ` ${said}: `), word);
    });
    const title = element("span", { class: "muted" }, name);
    return element("p", { class: "compare" }, title, element("span", { dir: "auto" }, ...words));
  };
  const same = text === data.hypotheses[0].text ? "The translation stays the same. " : "";
  const size = Math.abs(loss).toFixed(3);
  const change = size === "0.000" ? "changes by less than 0.001" : `${loss < 0 ? "rises" : "falls"} by ${size}`;
  return [
    line("With it", before, "del", "gone"),
    line("Without it", after, "ins", "new"),
    element("p", {}, `${same}The log-probability of the translation with it ${change} per piece.`),
  ];
}

/** Returns two texts as lists of [part, whether both have it], by their longest common run of words. */
function difference(before, after) {
  const segmenter = new Intl.Segmenter(undefined, { granularity: "word" });
  const [a, b] = [before, after].map((text) => Array.from(segmenter.segment(text), ({ segment }) => segment));
  const common = times(a.length + 1, () => new Array(b.length + 1).fill(0)); // of what follows i in a and j in b
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const parts = [[], []];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      parts[0].push([a[i++], true]);
      parts[1].push([b[j++], true]);
    } else if (j === b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) {
      parts[0].push([a[i++], false]);
    } else {
      parts[1].push([b[j++], false]);
    }
  }
  return parts;
}

/** Lists the heads without which the translation is another, those that are missed most first. */
function drawMatter() {
  if (!data.without) return;
  const all = Object.keys(KINDS).flatMap((kind) => data.without[kind].flatMap((heads, layer) => {
    return heads.flatMap((without, head) => (without ? [{ kind, layer, head, ...without }] : []));
  }));
  const changing = all.filter(({ text }) => text !== data.hypotheses[0].text).sort((a, b) => b.loss - a.loss);
  const rows = changing.map(({ kind, layer, head, text, loss }) => {
    const open = element("button", { type: "button" }, nameOf(kind, layer, head));
    open.addEventListener("click", () => choose({ kind, layer, head, off: true }));
    const figures = [element("td", {}, signed(loss)), element("td", { dir: "auto" }, text)];
    return element("tr", {}, element("th", { scope: "row" }, open), ...figures);
  });
  const header = ["Head", "Loss", "Translation without it"].map((name) => element("th", { scope: "col" }, name));
  const list = element("table", { class: "matter" });
  list.append(element("thead", {}, element("tr", {}, ...header)), element("tbody", {}, ...rows));
  const count = `${rows.length || "None"} of the ${all.length} heads that can be switched off, one at a time.`;
  const meaning = "Loss: by how much the log-probability of the translation falls, per piece.";
  byId("matter").hidden = false;
  byId("matter").querySelector("p").textContent = rows.length ? `${count} ${meaning}` : count;
  byId("matter").querySelector(".scroll").append(...(rows.length ? [list] : []));
}

// ---------------------------------------------------------------- the words

/** The panels on the page: what panelsOf returns, with the map, and the section and the drawing that show it. */
let panels = [];

/** Returns a new element of a drawing. */
function shape(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** Draws the lines and the table of each panel. */
function drawPanels() {
  panels = panelsOf(chosen.kind).map((panel, number) => {
    const map = mapOf(panel.block, chosen.kind, chosen.layer, chosen.head);
    const length = Math.max(panel.rows.length, panel.columns.length);
    const view = { viewBox: `0 0 100 ${length}`, preserveAspectRatio: "none", style: `--words: ${length}` };
    const svg = shape("svg", { "aria-hidden": "true", ...view });
    const score = panel.score === null ? "" : `${signed(panel.score)} log-probability per piece`;
    const [left, right] = [["rows", "row", "Words that look"], ["columns", "column", "Words they look at"]]
      .map(([words, side, label]) => wordList(panel[words], side, label));
    const scroll = { class: "scroll", tabindex: 0, role: "group", "aria-label": "Weights as a table" };
    const root = element("section", { class: "panel", "aria-labelledby": `map-${number}`, "data-panel": number },
      element("h2", { id: `map-${number}`, dir: "auto" }, panel.title),
      element("p", { class: "muted" }, score),
      element("div", { class: "views" },
        element("div", { class: "lines" }, left, svg, right), element("div", scroll, table(panel, map))));
    return { ...panel, map, root, svg };
  });
  byId("maps").replaceChildren(...panels.map(({ root }) => root));
}

/** Returns one side of the lines: its words, of which Tab reaches one and the arrow keys the others. */
function wordList(words, side, label) {
  const buttons = words.map((word, i) => {
    const place = { "data-side": side, "data-index": i, tabindex: i ? -1 : 0 };
    return element("button", { type: "button", class: "word", dir: "auto", title: word, ...place }, word);
  });
  return element("ol", { "aria-label": label, class: side }, ...buttons.map((button) => element("li", {}, button)));
}

/** Returns a map as a table. */
function table({ block, rows, columns }, map) {
  const header = columns.map((word, c) => {
    const place = { "data-side": "column", "data-index": c };
    return element("th", { scope: "col", title: word, ...place }, element("span", { dir: "auto" }, word));
  });
  const cell = (weight, r, c) => {
    if (chosen.kind === "decoder" && c > r && isMasked(block, r, c)) {
      return element("td", { class: "masked" }, element("span", { class: "sr" }, "masked"));
    }
    const look = weight >= STRONG ? "strong" : weight < 0.0005 ? "zero" : null;
    return element("td", { class: look, style: `--weight: ${100 * weight}%` }, weight.toFixed(3));
  };
  const lines = rows.map((word, r) => {
    const cells = map[r].map((weight, c) => cell(weight, r, c));
    const name = element("th", { scope: "row", dir: "auto", title: word }, word);
    return element("tr", { "data-side": "row", "data-index": r }, name, ...cells);
  });
  const name = nameOf(chosen.kind, chosen.layer, chosen.head);
  return element("table", { class: "heat" },
    element("caption", { class: "sr" }, `${name}: each row is a word that looks, each column what it looks at`),
    element("thead", {}, element("tr", {}, element("td"), ...header)),
    element("tbody", {}, ...lines));
}

/** Shows one word's lines alone and says in words what they say, or with null all lines. */
function point(word) {
  panels.forEach((panel, number) => {
    const [, side, index] = word?.[0] === number ? word : [];
    drawLines(panel, side, index);
    for (const part of panel.root.querySelectorAll("[data-side]")) {
      const here = Number(part.dataset.index);
      part.classList.toggle("active", part.dataset.side === side && here === index);
      if (part.tagName !== "BUTTON") continue;
      const opposite = side && part.dataset.side !== side;
      const weight = opposite ? (side === "row" ? panel.map[index][here] : panel.map[here][index]) : 0;
      part.style.setProperty("--weight", `${100 * weight}%`);
      part.setAttribute("aria-pressed", Boolean(chosen.word) && part.classList.contains("active"));
    }
  });
  const text = word ? sentence(panels[word[0]], word[1], word[2]) : HINT;
  if (byId("live").textContent !== text) byId("live").textContent = text;
}

/** Draws the lines of a panel, or those of one word only; the heavier the weight, the stronger the line. */
function drawLines({ map, svg }, side, index) {
  const lines = map.flatMap((row, r) => row.flatMap((weight, c) => {
    const other = side && (side === "row" ? r : c) !== index;
    if (weight < FAINTEST || other) return [];
    const curve = `M0,${r + 0.5} C40,${r + 0.5} 60,${c + 0.5} 100,${c + 0.5}`;
    const strength = { "stroke-width": 0.75 + 3.25 * weight, "stroke-opacity": 0.05 + 0.95 * weight };
    return [shape("path", { class: "line", d: curve, ...strength, "data-row": r, "data-column": c })];
  }));
  svg.replaceChildren(...lines);
}

/** Returns in words where a word looks, or which look at it: the four greatest weights of one percent or more. */
function sentence({ map, rows, columns }, side, index) {
  const looks = side === "row";
  const weights = looks ? map[index] : map.map((row) => row[index]);
  const pairs = weights.map((weight, i) => [weight, (looks ? columns : rows)[i]]);
  const most = pairs.filter(([weight]) => weight >= FAINTEST).sort((a, b) => b[0] - a[0]).slice(0, 4);
  const list = most.map(([weight, other]) => `${other} ${percent(weight)}`).join(", ") || "nothing";
  return looks ? `${rows[index]} looks at ${list}` : `${columns[index]} is looked at by ${list}`;
}

/** Lets pointer and keys find the words: pointing shows, clicking holds, Escape frees, arrows move. */
function listenToWords() {
  const wordAt = ({ target }) => {
    const part = target.closest("[data-side]");
    return part && [Number(part.closest("[data-panel]").dataset.panel), part.dataset.side, Number(part.dataset.index)];
  };
  const glance = (event) => { if (!chosen.word) point(wordAt(event)); };
  const hold = (word) => {
    chosen.word = String(word) === String(chosen.word) ? null : word;
    point(chosen.word);
    writeAddress();
  };
  for (const name of ["mouseover", "focusin"]) byId("maps").addEventListener(name, glance);
  byId("maps").addEventListener("mouseleave", () => point(chosen.word));
  byId("maps").addEventListener("focusout", ({ relatedTarget }) => {
    if (!byId("maps").contains(relatedTarget)) point(chosen.word);
  });
  byId("maps").addEventListener("click", (event) => { if (wordAt(event)) hold(wordAt(event)); });
  document.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || !chosen.word) return;
    hold(null);
    if (document.activeElement.matches(".word")) glance({ target: document.activeElement });
  });
  byId("maps").addEventListener("keydown", (event) => {
    if (!event.target.matches(".word")) return;
    const [panel, side, index] = wordAt(event);
    const count = panels[panel][side === "row" ? "rows" : "columns"].length;
    const places = {
      ArrowUp: [side, index - 1], ArrowDown: [side, index + 1], Home: [side, 0], End: [side, count - 1],
      ArrowLeft: ["row", index], ArrowRight: ["column", index],
    };
    if (!places[event.key]) return;
    event.preventDefault();
    const [toSide, to] = places[event.key];
    const words = [...panels[panel].root.querySelectorAll(`.word[data-side="${toSide}"]`)];
    const next = words[Math.max(0, Math.min(to, words.length - 1))];
    for (const one of words) one.tabIndex = one === next ? 0 : -1;
    next.focus();
  });
}

/** Shows what is chosen. */
function show() {
  writeAddress();
  drawControls();
  if (byId("overview").dataset.kind !== chosen.kind) drawOverview();
  markOverview();
  drawMeasures();
  drawPanels();
  point(chosen.word);
}

drawFrame();
listenToWords();
addEventListener("hashchange", () => { readAddress(); show(); });
readAddress();
show();
