// Drawing the sentences. Each text is a textarea, which has the cursor, above a mirror, which draws the
// text with its words, links, uncertain words and proposals.
import { element, find, others, percent, say, source, target } from "./dom.js";
import { chosen, placed, state, whole } from "./state.js";
import { drawSuggestion } from "./suggestion.js";
import { inUnits, isAnswer, isLinked, overlap, placesOf, unsureOf, wordsOf } from "./words.js";

// words: {start, end, index, word, unsure}, in order; ghost: {start, end}
function mirror(area, words, ghost) {
  const ends = [0, area.value.length, ...words.flatMap(({ start, end }) => [start, end])];
  const cuts = [...new Set([...ends, ghost?.start ?? 0, ghost?.end ?? 0])].sort((a, b) => a - b);
  let next = 0;
  const parts = cuts.slice(1).map((end, n) => {
    while (words[next]?.end <= cuts[n]) next++;
    const word = words[next]?.start <= cuts[n] ? words[next] : null;
    const span = element("span", area.value.slice(cuts[n], end));
    if (word) Object.assign(span.dataset, { side: area.id, index: word.index, word: word.word });
    span.classList.toggle("unsure", Boolean(word?.unsure));
    span.classList.toggle("ghost", Boolean(ghost && cuts[n] >= ghost.start && end <= ghost.end));
    return span;
  });
  area.previousElementSibling.replaceChildren(...parts, "\u200b"); // so that a final line break is drawn
}

export function draw(caret = null) {
  if (target.value !== whole()) {
    const { selectionStart, selectionEnd } = target;
    target.value = whole();
    target.setSelectionRange(selectionStart, selectionEnd);
  }
  if (caret !== null) target.setSelectionRange(caret, caret);
  let ghost = null;
  const words = placed().flatMap(({ segment, index, begin, end }) => {
    if (state.proposal?.index === index) ghost = { start: begin + state.proposal.at, end };
    const doubts = isAnswer(segment) ? unsureOf(segment) : [];
    return wordsOf(segment, chosen().target).map((word, n) => {
      const unsure = doubts.some((piece) => overlap(piece, word));
      return { start: begin + word.start, end: begin + word.end, index, word: n, unsure };
    });
  });
  mirror(target, words, ghost);
  drawSource();
  drawConfidence();
  drawOthers();
}

function drawConfidence() {
  const answers = placed().map(({ segment }) => segment).filter(isAnswer);
  const logps = answers.flatMap(({ best }) => best.tokens.map(([, logp]) => logp));
  const value = Math.exp(logps.reduce((sum, logp) => sum + logp, 0) / logps.length) || 0;
  find("#confidence").hidden = !logps.length;
  find("#confidence meter").value = value;
  find("#confidence output").textContent = percent(value);
}

export function drawSource() {
  let from = 0;
  const words = state.segments.flatMap(({ sentence }, index) => {
    const places = placesOf(sentence.source, source.value, from);
    if (!places) return [];
    from = places.at(-1);
    const listed = inUnits(sentence.source, sentence.source_words ?? []);
    return listed.map(({ start, end }, n) => ({ start: places[start], end: places[end - 1] + 1, index, word: n }));
  });
  mirror(source, words);
}

// The index of the sentence at the cursor or, if there is none, of the next one.
export function currentIndex() {
  return atCursor()?.index ?? placed().findIndex(({ end }) => end >= target.selectionStart);
}

// Draw the n-best list of the sentence at the cursor.
export function drawOthers() {
  const segment = placed()[currentIndex()]?.segment;
  const all = segment?.sentence.translations ?? [];
  const isNew = ({ text }, n) => /[\p{L}\p{N}]/u.test(text) && all.findIndex((each) => each.text.trim() === text.trim()) === n;
  const list = all.filter(isNew);
  const items = list.map((translation) => {
    const button = element("button", "", { type: "button" });
    button.ariaPressed = String(translation.text === segment.text);
    const cut = translation.truncated ? " · cut off" : ""; // by the length limit
    const figures = element("small", `${percent(translation.confidence)}${cut}`);
    button.append(element("bdi", translation.text, { lang: chosen().target }), figures);
    const item = element("li", "");
    item.dataset.rank = all.indexOf(translation);
    item.append(button);
    return item;
  });
  others.querySelector("ol").replaceChildren(...items);
  drawSuggestion(state.segments[currentIndex()]);
  others.hidden = list.length < 2 && find("#suggest").hidden;
  mark();
}

export const known = ({ dataset }) => ({ side: dataset.side, index: Number(dataset.index), word: Number(dataset.word) });
export const spansOf = ({ side, index, word }) => [...document.querySelectorAll(`[data-side="${side}"][data-index="${index}"][data-word="${word}"]`)];

export function atCursor() {
  const area = document.activeElement;
  if (area !== source && area !== target) return null;
  let end = 0;
  for (const span of area.previousElementSibling.children) {
    end += span.textContent.length;
    if (span.dataset.word && end - span.textContent.length <= area.selectionStart && area.selectionStart <= end) return known(span);
  }
  return null;
}

// The word under the pointer, or else at the cursor, and the words linked with it.
function linked() {
  const word = state.pointed ?? atCursor();
  const segment = word && placed()[word.index]?.segment;
  if (!segment || !isLinked(segment)) return { word, partners: [] };
  const from = word.side === "source" ? 0 : 1;
  const links = segment.best.links.filter((link) => link[from] === word.word);
  const side = from ? "source" : "target";
  return { word, partners: links.map((link) => ({ side, index: word.index, word: link[1 - from] })) };
}

export function mark() {
  document.querySelectorAll(".held, .link").forEach((span) => span.classList.remove("held", "link"));
  const { word, partners } = linked();
  if (!partners.length) return;
  spansOf(word).forEach((span) => span.classList.add("held"));
  partners.flatMap(spansOf).forEach((span) => span.classList.add("link"));
}

// Scroll the other pane to the words linked with the one at the cursor.
export function showLinks() {
  if (!state.pointed) linked().partners.flatMap(spansOf)[0]?.scrollIntoView({ block: "nearest" });
}

export function sayLinks() {
  const { word, partners } = linked();
  const name = (each) => `“${spansOf(each).map((span) => span.textContent).join("")}”`;
  if (word) say(`${name(word)} is linked with ${partners.map(name).join(", ") || "no word"}`, { at: word.side });
}
