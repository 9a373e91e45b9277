// The page of the service: a text, its translation, and what the model knows of both. Each text is a
// textarea, for the cursor, over a mirror that draws it: words, links, doubts, proposals. What comes
// from outside is only ever set as text.
const find = (selector) => document.querySelector(selector);
const [source, target, model, swap, key, ways, others, status, confidence] = [
  ...["#source", "#target", "#model", "#swap", "#key", "#ways", "#others", "#status", "#confidence"],
].map(find);
const WAIT = 250; // milliseconds after a key, before the service is asked
const UNSURE = 0.3; // a word with a piece less probable than this is marked

let models = [];
let many = 5; // translations of a sentence
// The sentences: {gap: what is before it in the translation, text: its translation, sentence: what the
// service answered, best: its answer that is shown, or was before a person edited it, edited}.
let segments = [];
let tail = ""; // of the translation, after the last sentence
let proposal = null; // {index: of the segment, at: where it begins in its text, rest: what stood there}
let history = []; // of segments and tail
let pointed = null; // the word under the pointer: {side, index: of the segment, word}
let secret = "";

// --- the service ----------------------------------------------------------------------------------

// By purpose: what is under way. Something new for a purpose ends what was.
const [running, timers] = [{}, {}];

function stop(...purposes) {
  for (const purpose of purposes) {
    running[purpose]?.abort();
    clearTimeout(timers[purpose]);
  }
}

function later(purpose, action, milliseconds = WAIT) {
  stop(purpose);
  timers[purpose] = setTimeout(() => attempt(purpose, action), milliseconds);
}

async function attempt(purpose, action) {
  const { signal } = (running[purpose] = new AbortController());
  try {
    await action(signal);
  } catch (error) {
    if (signal.aborted) return;
    if (error.code === 403) {
      key.hidden = false;
      key.querySelector("input").focus();
    }
    say(error.wait ? `${error.message}. Trying again in ${error.wait} s` : error.message, true);
    if (error.wait) later(purpose, action, error.wait * 1000);
  }
}

async function ask(signal, path, body) {
  const headers = { "Content-Type": "application/json" };
  if (secret) headers.Authorization = `Bearer ${secret}`;
  const options = body ? { method: "POST", body: JSON.stringify(body) } : {};
  const response = await fetch(path, { ...options, headers, signal }).catch(() => null);
  const answer = await response?.json().catch(() => null);
  if (response?.ok && answer) return answer;
  const busy = !answer || [429, 503].includes(response.status);
  const wait = busy && (Number(response?.headers.get("Retry-After")) || 3);
  throw Object.assign(new Error(answer?.error ?? "The service does not answer"), { code: response?.status, wait });
}

const chosen = () => models[model.selectedIndex];
const reverse = () => models.findIndex((each) => each.source === chosen().target && each.target === chosen().source);
const asked = (text) => ({ text, model: chosen().name, links: chosen().links });

async function start(signal) {
  const { models: all, limits } = await ask(signal, "v1/models");
  models = all;
  many = Math.min(many, limits.alternatives, limits.beam_size);
  const labels = models.map((each) => `${each.source_name} → ${each.target_name}`);
  const isUnique = (label) => labels.indexOf(label) === labels.lastIndexOf(label);
  model.replaceChildren(...labels.map((label, n) => new Option(isUnique(label) ? label : `${label} (${models[n].name})`)));
  key.hidden = true;
  changeModel();
}

function changeModel() {
  for (const [area, side] of [[source, "source"], [target, "target"]]) {
    find(`label[for=${side}]`).textContent = chosen()[`${side}_name`];
    area.parentElement.lang = chosen()[side];
  }
  swap.hidden = reverse() < 0;
  segments = segments.map((segment) => ({ ...segment, edited: false }));
  later("translate", translate, 0);
}

async function translate(signal) {
  stop("propose", "ways");
  const text = source.value;
  target.parentElement.ariaBusy = "true";
  const answer = text.trim() ? await ask(signal, "v1/translate", { ...asked(text), nbest: many }) : { text: "", sentences: [] };
  take(answer);
  const { language, name } = answer.detected ?? { language: chosen().source };
  const foreign = language !== chosen().source;
  say(foreign ? `This seems to be ${name}, not ${chosen().source_name}` : "", foreign);
}

// A sentence whose source is the same keeps what a person made of it.
function take({ text, sentences }) {
  remember();
  const kept = segments.filter((segment) => segment.edited);
  segments = [];
  tail = text;
  for (const sentence of sentences) {
    const best = sentence.translations[0];
    const place = best ? tail.indexOf(best.text) : -1;
    if (place < 0) continue;
    const n = kept.findIndex((segment) => segment.sentence.source === sentence.source);
    const old = n < 0 ? { text: best.text, best, edited: false } : kept.splice(n, 1)[0];
    segments.push({ ...old, sentence, gap: tail.slice(0, place) });
    tail = tail.slice(place + best.text.length);
  }
  proposal = pointed = null;
  target.parentElement.ariaBusy = "false";
  draw();
}

// --- places in texts ------------------------------------------------------------------------------

// Where each unit of a sentence, whose white space is single spaces, is in the text that it is from.
function placesOf(sentence, text, from) {
  const words = sentence.split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(words.join("\\s+"), "gu");
  pattern.lastIndex = from;
  let place = pattern.exec(text)?.index;
  return place === undefined ? null : [...sentence.split(""), ""].map((unit) => {
    const here = place++;
    if (/\s/.test(unit)) while (/\s/.test(text[place] ?? "")) place++;
    return here;
  });
}

// The service counts code points, a page units of UTF-16.
function inUnits(text, words) {
  const places = [0];
  for (const character of text) places.push(places.at(-1) + character.length);
  return words.map(({ start, end }) => ({ start: places[start], end: places[end] }));
}

function segmented(text) {
  const parts = [...new Intl.Segmenter(chosen().target, { granularity: "word" }).segment(text)];
  return parts.filter((part) => part.isWordLike).map(({ index, segment }) => ({ start: index, end: index + segment.length }));
}

const isAnswer = ({ text, best }) => text === best.text;
const isLinked = (segment) => Boolean(isAnswer(segment) && segment.best.words?.length);
const wordsOf = (segment) => (isLinked(segment) ? inUnits(segment.text, segment.best.words) : segmented(segment.text));

// The pieces of which the model was not sure; none if they do not spell the text.
function unsureOf({ text, best }) {
  const pieces = best.tokens.filter(([piece]) => piece !== "</s>");
  const whole = pieces.map(([piece]) => piece).join("");
  if (whole.trim() !== text.trim()) return [];
  let end = text.length - text.trimStart().length - (whole.length - whole.trimStart().length);
  const places = pieces.map(([piece, logp]) => ({ start: end, end: (end += piece.length), logp }));
  return places.filter(({ logp }) => Math.exp(logp) < UNSURE);
}

const overlap = (a, b) => a.start < b.end && b.start < a.end;
const whole = () => segments.map(({ gap, text }) => gap + text).join("") + tail;

// The segments with their places in the translation.
function placed() {
  let end = 0;
  return segments.map((segment, index) => {
    const begin = end + segment.gap.length;
    end = begin + segment.text.length;
    return { segment, index, begin, end };
  });
}

// --- drawing --------------------------------------------------------------------------------------

function element(name, text, properties = {}) {
  return Object.assign(document.createElement(name), { textContent: text, ...properties });
}

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
  area.previousElementSibling.replaceChildren(...parts, "\u200b"); // so that a last line end is drawn
}

function draw(caret = null) {
  if (target.value !== whole()) {
    const { selectionStart, selectionEnd } = target;
    target.value = whole();
    target.setSelectionRange(selectionStart, selectionEnd);
  }
  if (caret !== null) target.setSelectionRange(caret, caret);
  let ghost = null;
  const words = placed().flatMap(({ segment, index, begin, end }) => {
    if (proposal?.index === index) ghost = { start: begin + proposal.at, end };
    const doubts = isAnswer(segment) ? unsureOf(segment) : [];
    return wordsOf(segment).map((word, n) => {
      const unsure = doubts.some((piece) => overlap(piece, word));
      return { start: begin + word.start, end: begin + word.end, index, word: n, unsure };
    });
  });
  mirror(target, words, ghost);
  drawSource();
  const logps = segments.filter(isAnswer).flatMap(({ best }) => best.tokens.map(([, logp]) => logp));
  const value = Math.exp(logps.reduce((sum, logp) => sum + logp, 0) / logps.length) || 0;
  confidence.hidden = !logps.length;
  confidence.querySelector("meter").value = value;
  confidence.querySelector("output").textContent = percent(value);
  drawOthers();
}

function drawSource() {
  let from = 0;
  const words = segments.flatMap(({ sentence }, index) => {
    const places = placesOf(sentence.source, source.value, from);
    if (!places) return [];
    from = places.at(-1);
    const listed = inUnits(sentence.source, sentence.source_words ?? []);
    return listed.map(({ start, end }, n) => ({ start: places[start], end: places[end - 1] + 1, index, word: n }));
  });
  mirror(source, words);
}

const percent = (value) => `${Math.round(value * 100)} %`;

// The n-best list of the sentence at the cursor.
function drawOthers() {
  const word = atCursor();
  const index = word?.index ?? placed().findIndex(({ end }) => end >= target.selectionStart);
  const list = segments[index]?.sentence.translations ?? [];
  const items = list.map((translation) => {
    const button = element("button", "", { type: "button", onclick: () => choose(index, translation) });
    button.ariaPressed = String(translation.text === segments[index].text);
    const score = translation.score.toFixed(2).replace("-", "−");
    const cut = translation.truncated ? " · cut off" : ""; // at the length limit
    const figures = element("small", `${percent(translation.confidence)} · score ${score}${cut}`);
    button.append(element("bdi", translation.text, { lang: chosen().target }), figures);
    const item = element("li", "");
    item.append(button);
    return item;
  });
  others.hidden = list.length < 2;
  others.querySelector("ol").replaceChildren(...items);
  mark();
}

const known = ({ dataset }) => ({ side: dataset.side, index: Number(dataset.index), word: Number(dataset.word) });
const spansOf = ({ side, index, word }) => [...document.querySelectorAll(`[data-side="${side}"][data-index="${index}"][data-word="${word}"]`)];

function atCursor() {
  const area = document.activeElement;
  if (area !== source && area !== target) return null;
  let end = 0;
  for (const span of area.previousElementSibling.children) {
    end += span.textContent.length;
    if (span.dataset.word && end - span.textContent.length <= area.selectionStart && area.selectionStart <= end) return known(span);
  }
  return null;
}

// The words linked with the one under the pointer, or else at the cursor.
function linked() {
  const word = pointed ?? atCursor();
  const segment = word && segments[word.index];
  if (!segment || !isLinked(segment)) return { word, partners: [] };
  const from = word.side === "source" ? 0 : 1;
  const links = segment.best.links.filter((link) => link[from] === word.word);
  const side = from ? "source" : "target";
  return { word, partners: links.map((link) => ({ side, index: word.index, word: link[1 - from] })) };
}

function mark() {
  document.querySelectorAll(".held, .link").forEach((span) => span.classList.remove("held", "link"));
  const { word, partners } = linked();
  if (!partners.length) return;
  spansOf(word).forEach((span) => span.classList.add("held"));
  partners.flatMap(spansOf).forEach((span) => span.classList.add("link"));
}

function say(text, wrong = false) {
  status.textContent = text;
  status.classList.toggle("wrong", wrong);
}

function sayLinks() {
  const { word, partners } = linked();
  const name = (each) => `“${spansOf(each).map((span) => span.textContent).join("")}”`;
  if (word) say(`${name(word)} is linked with ${partners.map(name).join(", ") || "no word"}`);
}

// --- the translation is edited --------------------------------------------------------------------

const remember = () => (history = [...history.slice(-99), { segments, tail, caret: target.selectionStart }]);
const change = (index, changed) => (segments = segments.with(index, { ...segments[index], ...changed, edited: true }));

function undo() {
  if (!history.length) return;
  stop("propose");
  const last = history.pop();
  [segments, tail, proposal] = [last.segments, last.tail, null];
  draw(last.caret);
}

function choose(index, best, caret = best.text.length) {
  remember();
  closeWays();
  proposal = null;
  change(index, { text: best.text, best });
  target.focus();
  draw(placed()[index].begin + caret);
}

// What is after the cursor in a sentence becomes a proposal, until the service has a better one.
function edit(event) {
  closeWays();
  stop("propose");
  const [before, now, caret] = [whole(), target.value, target.selectionStart];
  let [head, same] = [0, 0]; // units that are equal at the begin, and at the end
  while (head < caret && before[head] === now[head]) head++;
  while (same < before.length - head && same < now.length - caret && before.at(-1 - same) === now.at(-1 - same)) same++;
  remember();
  const place = placed().find(({ begin, end }) => begin <= head && before.length - same <= end);
  if (!place) {
    [segments, tail, proposal] = [[], now, null]; // several sentences at once: a text of one's own
    return draw();
  }
  const { index, begin } = place;
  const text = now.slice(begin, now.length - (before.length - place.end));
  const [at, old] = [caret - begin, proposal?.index === index ? proposal : null];
  const typed = event.isComposing ? "" : (event.data ?? "");
  // What is typed may be what was proposed.
  const along = old && typed && at === old.at + typed.length && text.startsWith(typed, at);
  const rest = text.slice(along ? at + typed.length : at);
  proposal = { index, at, rest: old?.rest ?? rest };
  change(index, { text: text.slice(0, at) + rest });
  draw(caret);
  if (!along && !event.isComposing) later("propose", (signal) => propose(signal, index, text.slice(0, at)));
}

async function propose(signal, index, prefix) {
  const body = { ...asked(segments[index].sentence.source), prefix, split: false };
  const best = (await ask(signal, "v1/translate", body)).sentences[0]?.translations[0];
  if (proposal?.index !== index || !best?.text.startsWith(prefix)) return;
  change(index, { text: best.text, best });
  draw();
  const rest = best.text.slice(prefix.length).trim();
  say(rest && `Proposed: “${rest}”. Tab accepts`);
}

function settle(text, caret) {
  const { index } = proposal;
  stop("propose");
  remember();
  proposal = null;
  change(index, { text });
  say("");
  draw(placed()[index].begin + caret);
}
const proposed = () => segments[proposal.index].text;
const accept = () => settle(proposed(), proposed().length);
const dismiss = () => settle(proposed().slice(0, proposal.at) + proposal.rest, proposal.at);

// --- other ways to go on --------------------------------------------------------------------------

async function offer(signal, enter) {
  const word = atCursor();
  if (word?.side !== "target") return;
  const { text, sentence } = segments[word.index];
  const prefix = text.slice(0, wordsOf(segments[word.index])[word.word].start);
  const answer = await ask(signal, "v1/alternatives", { ...asked(sentence.source), prefix, count: many });
  const found = answer.sentences[0].translations.filter((each) => each.text.startsWith(prefix) && each.text !== prefix);
  if (!found.length) return say("There is no other way to go on here");
  ways.replaceChildren(...found.map((translation) => {
    const rest = translation.text.slice(prefix.length);
    const first = segmented(rest)[0]?.end ?? rest.length;
    const text = element("bdi", rest.slice(0, first), { lang: chosen().target });
    text.append(element("span", rest.slice(first)));
    const onclick = () => choose(word.index, translation, prefix.length + first);
    const option = element("li", "", { role: "option", tabIndex: -1, onclick });
    option.append(text, element("small", percent(translation.confidence)));
    return option;
  }));
  ways.hidden = false;
  const [box, at] = [ways.parentElement, spansOf(word)[0]].map((each) => each.getBoundingClientRect());
  ways.style.left = `${Math.max(0, Math.min(at.left - box.left, box.width - ways.offsetWidth))}px`;
  ways.style.top = `${at.bottom - box.top + 4}px`;
  say(`${found.length} ways to go on; arrow down, then Enter chooses`);
  if (enter) ways.firstElementChild.focus();
}

function closeWays() {
  stop("ways");
  if (ways.contains(document.activeElement)) target.focus();
  ways.hidden = true;
}

// --- events ---------------------------------------------------------------------------------------

const openWays = (enter) => later("ways", (signal) => offer(signal, enter), 0);

source.addEventListener("input", () => {
  drawSource();
  later("translate", translate);
});
target.addEventListener("input", edit);
target.addEventListener("compositionend", () => edit({}));
target.addEventListener("click", () => target.selectionStart === target.selectionEnd && openWays(false));
target.addEventListener("keydown", (event) => {
  const keys = {
    Tab: proposal && !event.shiftKey && proposed().length > proposal.at && accept,
    Escape: ways.hidden ? proposal && dismiss : closeWays,
    ArrowDown: ways.hidden ? event.altKey && (() => openWays(true)) : () => ways.firstElementChild.focus(),
    z: (event.ctrlKey || event.metaKey) && !event.shiftKey && undo,
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
ways.addEventListener("keydown", (event) => {
  const options = [...ways.children];
  const here = options.indexOf(document.activeElement);
  const places = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: -1 };
  if (event.key in places) options.at(places[event.key] % options.length).focus();
  else if (event.key === "Enter") options[here].click();
  else if (event.key === "Escape" || event.key === "Tab") closeWays();
  else return;
  event.preventDefault();
});
for (const area of [source, target]) {
  area.addEventListener("keydown", (event) => event.altKey && event.key === "ArrowUp" && (event.preventDefault(), sayLinks()));
  for (const kind of ["pointermove", "pointerleave"]) {
    area.addEventListener(kind, (event) => {
      const under = kind === "pointermove" ? document.elementsFromPoint(event.clientX, event.clientY) : [];
      const span = under.find((each) => each.dataset.word);
      pointed = span ? known(span) : null;
      mark();
    });
  }
}
document.addEventListener("selectionchange", () => {
  if (document.activeElement !== source && document.activeElement !== target) return;
  if (proposal && target.selectionStart !== placed()[proposal.index].begin + proposal.at) {
    proposal = null; // one who goes on elsewhere leaves it as it is
    draw();
  }
  drawOthers();
});
document.addEventListener("pointerdown", (event) => ways.contains(event.target) || closeWays());
model.addEventListener("change", changeModel);
swap.addEventListener("click", () => {
  [source.value, segments, model.selectedIndex] = [target.value, [], reverse()];
  changeModel();
});
key.addEventListener("submit", (event) => {
  event.preventDefault();
  secret = key.querySelector("input").value;
  attempt("models", start);
});
find("#copy").addEventListener("click", async () => {
  await navigator.clipboard?.writeText(target.value).catch(() => null);
  if (!navigator.clipboard) {
    target.select(); // a page without TLS has no clipboard
    document.execCommand("copy");
  }
  say("Copied");
});
attempt("models", start);
