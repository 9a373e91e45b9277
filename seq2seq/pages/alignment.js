"use strict";
// The alignment viewer. seq2seq/pages/page.py writes its data: for each pair the words, the weights as
// bytes (255 is a weight of 1), and the links of each map as a Pharaoh line. Links are not computed
// here, so that the page cannot disagree with the command.
(() => {
  const root = document.querySelector(".alignment");
  const data = JSON.parse(document.getElementById("data").textContent).alignments;
  if (!root || !data) return;

  const SVG = "http://www.w3.org/2000/svg";
  const READINGS = ["when the word was written", "one step later"];
  const controls = root.querySelector(".controls").elements;
  const stage = root.querySelector(".stage");
  const curves = root.querySelector(".curves");
  const lines = { source: root.querySelector(".source"), target: root.querySelector(".target") };
  const table = root.querySelector(".map");
  const [shifts, layers, heads] = data.shape;

  let pair; // the pair that is shown
  let map; // map[j][i]: the weight of source word i for target word j; the last i is the end
  let links; // "i-j"
  let held = null; // the word under the pointer or in focus: {side, index}

  const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const percent = (weight) => `${Math.round(weight * 100)}%`;
  const cutoff = () => Number(controls.cutoff.value) / 100;
  const wordsOf = (side) => (side === "source" ? [...pair.source, "end"] : pair.target);

  // --- the controls -------------------------------------------------------------------------------

  function offer(select, labels, chosen) {
    labels.forEach((label, value) => select.add(new Option(label, value)));
    select.value = chosen;
  }

  function offerAll() {
    // Count characters, so that no surrogate pair is split.
    const shorten = (text) => ([...text].length > 90 ? `${[...text].slice(0, 89).join("")}…` : text);
    const titles = data.pairs.map((p, n) => `${n + 1}. ${shorten(p.source.join(" "))}`);
    const ordinals = (count) => Array.from({ length: count }, (_, n) => `${n + 1} of ${count}`);
    offer(controls.pair, titles, 0);
    offer(controls.layer, ordinals(layers), data.choice.layer);
    offer(controls.head, ["mean", ...ordinals(heads)], (data.choice.head ?? -1) + 1);
    offer(controls.shift, READINGS.slice(0, shifts), data.choice.shift);
  }

  function read() {
    const [shift, layer, head] = ["shift", "layer", "head"].map((name) => Number(controls[name].value));
    pair = data.pairs[Number(controls.pair.value)];
    pair.bytes ??= Uint8Array.from(atob(pair.weights), (c) => c.charCodeAt(0));
    const width = pair.source.length + 1;
    const size = pair.target.length * width;
    const first = (shift * layers + layer) * heads;
    const chosen = head ? [first + head - 1] : Array.from({ length: heads }, (_, h) => first + h);
    const weight = (cell) => chosen.reduce((sum, n) => sum + pair.bytes[n * size + cell], 0);
    map = pair.target.map((_, j) =>
      Array.from({ length: width }, (_, i) => weight(j * width + i) / 255 / chosen.length),
    );
    const line = pair.links[(shift * layers + layer) * (heads + 1) + head];
    links = new Set(line.split(" ").filter(Boolean));
    root.querySelector(".pharaoh").textContent = line || "no links";
  }

  // --- drawing ------------------------------------------------------------------------------------

  function makeWord(side, index, text) {
    const end = side === "source" && index === pair.source.length;
    const word = element("span", end ? "word end" : "word", text);
    word.tabIndex = -1;
    Object.assign(word.dataset, { side, index });
    word.append(element("small"));
    return word;
  }

  function drawWords() {
    for (const [side, line] of Object.entries(lines)) {
      const items = wordsOf(side).map((text, index) => {
        const item = element("li");
        item.append(makeWord(side, index, text));
        return item;
      });
      line.replaceChildren(...items);
    }
  }

  function drawMap() {
    const across = element("tr");
    across.append(element("td"));
    const header = (side, index, text) => {
      const cell = element("th");
      cell.dir = "auto";
      cell.append(makeWord(side, index, text));
      return cell;
    };
    across.append(...wordsOf("source").map((text, i) => header("source", i, text)));
    const rows = map.map((weights, j) => {
      const row = element("tr");
      row.append(header("target", j, pair.target[j]));
      row.append(...weights.map((weight, i) => drawCell(weight, i, j)));
      return row;
    });
    const [made, head, body] = ["table", "thead", "tbody"].map((name) => element(name));
    head.append(across);
    body.append(...rows);
    made.append(head, body);
    table.dir = getComputedStyle(lines.source).direction; // columns run as the source does
    table.replaceChildren(made);
  }

  function drawCell(weight, i, j) {
    const cell = element("td", weight > 0.55 ? "dark" : "", Math.round(weight * 100));
    cell.style.setProperty("--weight", weight.toFixed(3));
    cell.classList.toggle("link", links.has(`${i}-${j}`));
    Object.assign(cell.dataset, { i, j });
    return cell;
  }

  function drawCurves() {
    const box = stage.getBoundingClientRect();
    const columns = stage.classList.contains("columns");
    const boxes = (side) => [...lines[side].querySelectorAll(".word")].map((w) => w.getBoundingClientRect());
    const [from, to] = [boxes("source"), boxes("target")];
    const paths = [];
    map.forEach((weights, j) =>
      weights.forEach((weight, i) => {
        const link = links.has(`${i}-${j}`);
        if (!link && (weight < cutoff() || weight === 0)) return;
        paths.push(drawCurve(path(from[i], to[j], box, columns), weight, i, j, link));
      }),
    );
    // Draw links last, on top of the others.
    paths.sort((a, b) => a.classList.contains("link") - b.classList.contains("link"));
    curves.replaceChildren(...paths);
  }

  function path(from, to, box, columns) {
    if (columns) {
      const [x, y] = [from.right - box.left + 3, from.top + from.height / 2 - box.top];
      const [u, v] = [to.left - box.left - 3, to.top + to.height / 2 - box.top];
      return `M${x} ${y}C${(x + u) / 2} ${y} ${(x + u) / 2} ${v} ${u} ${v}`;
    }
    const [x, y] = [from.left + from.width / 2 - box.left, from.bottom - box.top + 3];
    const [u, v] = [to.left + to.width / 2 - box.left, to.top - box.top - 3];
    return `M${x} ${y}C${x} ${(y + v) / 2} ${u} ${(y + v) / 2} ${u} ${v}`;
  }

  function drawCurve(d, weight, i, j, link) {
    const curve = document.createElementNS(SVG, "path");
    curve.setAttribute("d", d);
    curve.classList.toggle("link", link);
    curve.classList.toggle("end", i === pair.source.length);
    curve.style.setProperty("--weight", weight.toFixed(3));
    Object.assign(curve.dataset, { i, j });
    return curve;
  }

  // Show two lines if both fit into the window, else two columns of any length.
  function arrange() {
    const map = controls.view.value === "map";
    stage.classList.toggle("lines", !map);
    stage.classList.remove("columns");
    Object.values(lines).forEach((line) => (line.hidden = map));
    curves.toggleAttribute("hidden", map);
    table.hidden = !map;
    if (map) return;
    const overflows = Object.values(lines).some((line) => line.scrollWidth > line.clientWidth + 1);
    stage.classList.toggle("lines", !overflows);
    stage.classList.toggle("columns", overflows);
    drawCurves();
  }

  function draw() {
    held = null;
    read();
    controls.percent.textContent = percent(cutoff());
    controls.previous.disabled = controls.pair.selectedIndex === 0;
    controls.next.disabled = controls.pair.selectedIndex === data.pairs.length - 1;
    drawWords();
    arrange();
    // Drawing a large map that is hidden would waste time.
    if (controls.view.value === "map") drawMap();
    else table.replaceChildren();
    const first = words()[0];
    if (first) first.tabIndex = 0;
    mark();
  }

  // --- the held word ------------------------------------------------------------------------------

  const words = (side) => {
    const inside = controls.view.value === "map" ? ".map " : ".line ";
    return [...stage.querySelectorAll(`${inside}.word${side ? `[data-side=${side}]` : ""}`)];
  };
  const touches = (i, j) => held && Number(held.side === "source" ? i : j) === held.index;

  // The words on the other side, with their weights and links to the held word.
  function partners() {
    if (!held) return [];
    const fromSource = held.side === "source";
    return wordsOf(fromSource ? "target" : "source").map((text, index) => {
      const [i, j] = fromSource ? [held.index, index] : [index, held.index];
      return { text, index, weight: map[j][i], link: links.has(`${i}-${j}`) };
    });
  }

  function mark() {
    stage.classList.toggle("holding", Boolean(held));
    const others = partners();
    const seen = (p) => p && (p.link || (p.weight >= cutoff() && p.weight > 0));
    for (const word of words()) {
      const index = Number(word.dataset.index);
      const here = held && word.dataset.side === held.side;
      const partner = held && !here ? others[index] : null;
      word.classList.toggle("held", Boolean(here && index === held.index));
      word.classList.toggle("linked", Boolean(partner?.link));
      word.style.setProperty("--weight", seen(partner) ? partner.weight.toFixed(3) : 0);
      word.querySelector("small").textContent = seen(partner) ? percent(partner.weight) : "";
    }
    for (const part of stage.querySelectorAll(".curves path, .map td[data-i]")) {
      part.classList.toggle("shown", Boolean(touches(part.dataset.i, part.dataset.j)));
    }
    say(others.filter(seen).sort((a, b) => b.weight - a.weight));
  }

  function say(others) {
    const said = root.querySelector(".said");
    if (!held) {
      said.textContent = "Point at a word, or move between words with the arrow keys.";
      return;
    }
    const arrow = held.side === "source" ? " is looked at by " : " looked at ";
    said.replaceChildren(element("bdi", "", wordsOf(held.side)[held.index]), arrow);
    others.slice(0, 6).forEach(({ text, weight, link }, n) => {
      said.append(n ? ", " : "", element("bdi", link ? "link" : "", text), ` ${percent(weight)}`);
    });
    if (!others.length) said.append("nothing above the limit");
    else if (!others.some((p) => p.link)) said.append("; no link");
  }

  function hold(word) {
    held = word && { side: word.dataset.side, index: Number(word.dataset.index) };
    mark();
  }

  // --- pointer and keys ---------------------------------------------------------------------------

  stage.addEventListener("pointerover", (event) => {
    const cell = event.target.closest(".map td[data-j]");
    const word = event.target.closest(".word") ?? (cell && words("target")[Number(cell.dataset.j)]);
    if (word) hold(word);
  });
  stage.addEventListener("pointerleave", () => hold(document.activeElement.closest?.(".word")));
  stage.addEventListener("focusin", (event) => {
    words().forEach((word) => (word.tabIndex = word === event.target ? 0 : -1));
    hold(event.target);
  });
  stage.addEventListener("focusout", () => hold(null));

  // Arrow keys along a line move in it; those across move to the linked word, or to the heaviest one.
  stage.addEventListener("keydown", (event) => {
    if (!held) return;
    const across = stage.classList.contains("columns");
    const turned = !across && getComputedStyle(lines[held.side]).direction === "rtl";
    const keys = across ? ["ArrowUp", "ArrowDown"] : ["ArrowLeft", "ArrowRight"];
    if (turned) keys.reverse();
    const row = words(held.side);
    const places = { [keys[0]]: held.index - 1, [keys[1]]: held.index + 1, Home: 0, End: row.length - 1 };
    let next = row[places[event.key]];
    if (event.key === "Escape") event.target.blur();
    else if (event.key.startsWith("Arrow") && !(event.key in places)) {
      const best = partners().sort((a, b) => b.link - a.link || b.weight - a.weight)[0];
      next = best && words(held.side === "source" ? "target" : "source")[best.index];
    }
    if (event.key in places || next) event.preventDefault();
    next?.focus();
  });

  function turn(by) {
    controls.pair.selectedIndex += by;
    draw();
  }
  controls.previous.addEventListener("click", () => turn(-1));
  controls.next.addEventListener("click", () => turn(1));
  root.querySelector(".controls").addEventListener("input", draw);
  root.querySelector(".controls").addEventListener("submit", (event) => event.preventDefault());

  offerAll();
  draw();
  new ResizeObserver(() => {
    arrange();
    mark();
  }).observe(stage.parentElement);
})();
