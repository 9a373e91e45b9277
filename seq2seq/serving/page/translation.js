// From the source to its translation.
import { find, from, into, model, number, others, say, source, target } from "./dom.js";
import { draw, drawSource } from "./drawing.js";
import { asked } from "./editing.js";
import { formats } from "./files.js";
import { drawGlossary, glossary } from "./glossary.js";
import { ask, later, stop } from "./service.js";
import { chosen, remember, state } from "./state.js";
import { countCharacters } from "./words.js";

const pane = target.parentElement;

const reverse = () => state.models.findIndex((each) => each.source === chosen().target && each.target === chosen().source);

export async function start(signal) {
  const [{ models, limits }, settings] = await Promise.all(["v1/models", "frontend/settings"].map((path) => ask(signal, path)));
  Object.assign(state, { models, limits, settings, many: Math.min(state.many, limits.alternatives, limits.beam_size) });
  const labels = models.map((each) => (each.languages ? each.name : `${each.source_name} → ${each.target_name}`));
  const isUnique = (label) => labels.indexOf(label) === labels.lastIndexOf(label);
  model.replaceChildren(...labels.map((label, n) => new Option(isUnique(label) ? label : `${label} (${models[n].name})`)));
  find("#key").hidden = true;
  say("", { at: "header" });
  find("#file").accept = ["text/*", ...formats()].join();
  find("#formats").textContent = ["txt", ...formats().map((suffix) => suffix.slice(1)).filter((name) => name !== "txt")].join(", ");
  offerLanguages();
}

// Offer the languages of a model of several: at first its own, or else the first two.
export function offerLanguages() {
  const { languages, ...own } = state.models[model.selectedIndex];
  for (const [n, [select, side]] of [[from, "source"], [into, "target"]].entries()) {
    select.hidden = !languages;
    select.replaceChildren(...(languages ?? []).map((each) => new Option(each.name, each.language)));
    if (languages) select.value = own[side] || languages[n].language;
  }
  changeModel();
}

// Exchange the languages; nothing if no model translates back.
export function swap() {
  if (chosen().languages) [from.selectedIndex, into.selectedIndex] = [into.selectedIndex, from.selectedIndex];
  else if (reverse() >= 0) model.selectedIndex = reverse();
  changeModel();
}

export function changeModel() {
  for (const [area, side] of [[source, "source"], [target, "target"]]) {
    find(`label[for=${side}]`).textContent = chosen()[`${side}_name`];
    area.parentElement.lang = chosen()[side];
  }
  find("#swap").hidden = !chosen().languages && reverse() < 0;
  drawGlossary();
  state.segments = state.segments.map((segment) => ({ ...segment, edited: false }));
  changeSource(0);
}

// What belongs to the old text is dimmed or hidden, and cannot be used.
function setStale(isStale) {
  state.isStale = others.inert = isStale;
  document.body.classList.toggle("stale", isStale);
}

// Translate the source text, unless it is too long.
export function changeSource(milliseconds) {
  const [length, limit] = [countCharacters(source.value), state.limits.characters];
  find("#clear").hidden = !length;
  drawSource();
  setStale(true);
  if (!chosen()) return; // not before the models are known; then this is called again
  find("#count").textContent = `${number(length)} / ${number(limit)}`;
  source.ariaInvalid = String(length > limit);
  if (length <= limit) return later("translate", translate, milliseconds);
  stop("translate");
  say(`The text is too long: at most ${number(limit)} characters are translated at once`, { at: "source", wrong: true });
  // The message takes space from the text, and so could hide the cursor at its end.
  const { parentElement: box, selectionEnd: cursor, value } = source;
  if (cursor === value.length) requestAnimationFrame(() => (box.scrollTop = box.scrollHeight));
}

async function translate(signal) {
  stop("propose", "ways");
  const text = source.value;
  pane.ariaBusy = "true";
  say("", { at: "source" });
  try {
    const body = { ...asked(text), ...glossary(), nbest: state.many };
    const answer = text.trim() ? await ask(signal, "v1/translate", body) : { text: "", sentences: [] };
    setStale(false);
    take(answer);
  } finally {
    if (!signal.aborted) pane.ariaBusy = "false";
  }
}

// Show an answer. A sentence whose source has not changed keeps the user's edits.
function take({ text, sentences, detected }) {
  remember();
  const kept = state.segments.filter((segment) => segment.edited);
  state.segments = [];
  state.tail = text;
  for (const sentence of sentences) {
    const best = sentence.translations[0];
    const place = best ? state.tail.indexOf(best.text) : -1;
    if (place < 0) continue;
    const n = kept.findIndex((segment) => segment.sentence.source === sentence.source);
    const old = n < 0 ? { text: best.text, best, edited: false } : kept.splice(n, 1)[0];
    state.segments.push({ ...old, sentence, gap: state.tail.slice(0, place) });
    state.tail = state.tail.slice(place + best.text.length);
  }
  state.proposal = state.pointed = null;
  draw();
  sayDetected(detected);
  const unmet = sentences.flatMap(({ translations }) => translations[0]?.unmet ?? []);
  say(unmet.length ? `Not in the translation: ${unmet.map((each) => `“${each}”`).join(", ")}` : "", { wrong: true });
}

function sayDetected(detected) {
  find("#detected").textContent = detected?.confidence ? `detected: ${detected.name}` : "";
  if (!detected || detected.language === chosen().source) return;
  say(`This seems to be ${detected.name}, not ${chosen().source_name}`, { at: "source", wrong: true });
}
