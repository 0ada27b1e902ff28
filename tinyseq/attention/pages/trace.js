// The trace page: one step of a translation at a time, with its numbers. The address names the step.

const data = pageData();
const MASKED = -3e4; // what is lower was put there by the mask
const STRONG = 0.6; // from this share of the largest number on, a cell's background asks for the other text colour

const byId = (id) => document.getElementById(id);
const links = new Map(); // of the list, by the step's name
let current = 0;
let tab = 0; // which head is shown; it stays from step to step

/** Returns which block of its layer a step belongs to, such as encoder.0.ffn, or null. */
function blockOf(step) {
  const parts = step.name.split(".");
  return parts.length === 4 ? parts.slice(0, 3).join(".") : null;
}

/** Draws the list of all steps: for each group a part, of which one is open, with a list for each block in it. */
function drawList() {
  let group, block, list;
  for (const step of data.steps) {
    if (step.group !== group?.name) {
      group = { name: step.group, details: element("details", { name: "group" }, element("summary", {}, step.group)) };
      byId("list").append(group.details);
      list = null;
    }
    if (!list || blockOf(step) !== block) {
      block = blockOf(step);
      if (block) group.details.append(element("h3", {}, step.title.split(": ")[0]));
      list = element("ol");
      group.details.append(list);
    }
    const label = block ? step.title.split(": ").pop() : step.title; // the block stands above it
    const link = element("a", { href: `#${step.name}` }, label);
    links.set(step.name, link);
    list.append(element("li", {}, link));
  }
}

/** Returns a number as it is shown, with the minus sign that is as wide as a digit. */
function shown(value, decimals) {
  return value < MASKED ? "masked" : value.toFixed(decimals).replace("-", "\u2212");
}

/** Returns the table of a step's numbers: of one head, where there are several. */
function tableOf(step) {
  const isFlat = !Array.isArray(step.values[0]);
  const whole = isFlat ? step.values.map((value) => [value]) : step.values;
  const matrix = step.tabs.length ? whole[tab] : whole;
  const sums = step.sums && (step.tabs.length ? step.sums[tab] : step.sums);
  const finite = whole.flat(2).filter((value) => value > MASKED).map(Math.abs);
  const largest = sums ? 1 : Math.max(...finite) || 1; // one scale for all heads
  const columns = step.columns.length ? step.columns : isFlat ? ["id"] : matrix[0].map((_, i) => String(i));
  const head = element("tr", {}, element("td"), ...columns.map((name) => element("th", { scope: "col" }, name)));
  if (sums) head.append(element("th", { scope: "col" }, "sum"));
  const body = matrix.map((values, row) => {
    const cells = values.map((value) => {
      if (isFlat) return element("td", {}, String(value));
      const share = value < MASKED ? 0 : Math.abs(value) / largest;
      const kinds = [value < MASKED && "masked", value < 0 && "below", share > STRONG && "strong"];
      const style = `--weight: ${Math.round(100 * share)}%`;
      return element("td", { class: kinds.filter(Boolean).join(" ") || null, style }, shown(value, 4));
    });
    if (sums) cells.push(element("td", { class: "sum" }, shown(sums[row], 4)));
    return element("tr", {}, element("th", { scope: "row" }, step.rows[row]), ...cells);
  });
  return element("table", { class: "heat" }, element("thead", {}, head), element("tbody", {}, ...body));
}

/** Returns the table of the candidates for the next piece, with a bar for each one's probability. */
function choicesOf(step) {
  const names = ["piece", "", "probability", "logit"];
  const head = element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name)));
  const body = step.values.map(([logit, probability], row) => {
    const isTaken = row === step.chosen;
    return element(
      "tr",
      { class: isTaken ? "taken" : null },
      element("th", { scope: "row" }, step.rows[row], isTaken ? element("small", {}, " taken") : ""),
      element("td", { class: "bar" }, element("i", { style: `--share: ${100 * probability}%` })),
      element("td", {}, shown(probability, 4)),
      element("td", {}, shown(logit, 4)),
    );
  });
  return element("table", { class: "choices" }, element("thead", {}, head), element("tbody", {}, ...body));
}

/** Draws the numbers of the current step, and which head they are of. */
function drawNumbers() {
  const step = data.steps[current];
  if (tab >= step.tabs.length) tab = 0;
  byId("numbers").replaceChildren(step.chosen === null ? tableOf(step) : choicesOf(step));
  for (const [i, button] of [...byId("heads").children].entries()) {
    button.setAttribute("aria-selected", i === tab);
    button.tabIndex = i === tab ? 0 : -1;
  }
}

/** Shows a head of the current step. */
function chooseTab(index) {
  tab = index;
  drawNumbers();
}

/** Shows the step that the address names, or the first. */
function show() {
  const name = location.hash.slice(1);
  current = Math.max(0, data.steps.findIndex((step) => step.name === name));
  const step = data.steps[current];
  const leavesFocus = byId("inputs").contains(document.activeElement) || byId("heads").contains(document.activeElement);
  const place = `Step ${current + 1} of ${data.steps.length} \u00b7 ${step.group}`;
  byId("place").replaceChildren(place, element("span", { class: "sr" }, `: ${step.title}`)); // what is read aloud
  byId("title").textContent = step.title;
  byId("text").textContent = step.text;
  byId("formula").textContent = step.formula;
  byId("formula").hidden = !step.formula;
  byId("shape").textContent = step.shape;
  byId("cut").textContent = step.cut;
  const origins = step.inputs.flatMap((input) => {
    const { title, group } = data.steps.find((other) => other.name === input);
    return [", ", element("a", { href: `#${input}` }, group === step.group ? title : `${title} (${group})`)];
  });
  byId("inputs").replaceChildren(...(origins.length ? ["Made of: ", ...origins.slice(1)] : []));
  byId("heads").replaceChildren(
    ...step.tabs.map((label, i) => {
      const button = element("button", { type: "button", role: "tab", "aria-controls": "numbers" }, label);
      button.addEventListener("click", () => chooseTab(i));
      return button;
    }),
  );
  drawNumbers();
  byId("back").disabled = current === 0;
  byId("next").disabled = current === data.steps.length - 1;
  for (const [other, link] of links) {
    if (other === step.name) link.setAttribute("aria-current", "step");
    else link.removeAttribute("aria-current");
  }
  const link = links.get(step.name);
  link.closest("details").open = true; // which closes the others
  byId("list").scrollTop = link.offsetTop - byId("list").clientHeight / 2; // scrollIntoView would move the page too
  if (leavesFocus) byId("title").focus(); // what had it is gone
}

/** Goes some steps on, or back. */
function go(by) {
  const step = data.steps[current + by];
  if (!step) return;
  history.pushState(null, "", `#${step.name}`); // unlike a new hash, this does not wait: keys may come fast
  show();
}

document.addEventListener("keydown", (event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (byId("heads").contains(event.target)) {
    const count = data.steps[current].tabs.length;
    chooseTab((tab + by + count) % count);
    byId("heads").children[tab].focus();
  } else if (event.target !== byId("numbers") || byId("numbers").scrollWidth <= byId("numbers").clientWidth) {
    go(by);
  } else {
    return; // a wide table scrolls
  }
  event.preventDefault();
});
byId("back").addEventListener("click", () => go(-1));
byId("next").addEventListener("click", () => go(1));
window.addEventListener("hashchange", show);

byId("source").textContent = data.source;
byId("translation").textContent = data.translation;
byId("notes").replaceChildren(
  element("p", {}, "Arrow keys go from step to step. Pieces that begin a word begin with \u2581."),
  ...data.notes.map((note) => element("p", {}, note)),
);
drawList();
show();
