// Editing the translation.
import { say, target } from "./dom.js";
import { draw } from "./drawing.js";
import { glossary } from "./glossary.js";
import { ask, later, stop } from "./service.js";
import { change, chosen, isProposed, placed, remember, state, whole } from "./state.js";

const FINISHED = /[.!?…。！？؟।]["'”’»)\]]*\s*$/u; // the end of a sentence

// The fields of a request for a text; for a segment's, with the sentences before it that the model reads.
export function asked(text, index = 0) {
  const { name, links, languages, source, target, context } = chosen();
  const before = state.segments.slice(Math.max(0, index - context), index);
  return { text, context: before.map(({ sentence }) => sentence.source).join("\n"), model: name, links, ...(languages && { source, target }) };
}

export function undo() {
  if (!state.history.length) return;
  stop("propose");
  const { segments, tail, caret } = state.history.pop();
  Object.assign(state, { segments, tail, proposal: null });
  draw(caret);
}

export function choose(index, best, caret = best.text.length) {
  remember();
  state.proposal = null;
  change(index, { text: best.text, best });
  target.focus();
  draw(placed()[index].begin + caret);
}

// The rest of the sentence after the cursor becomes a proposal until the service has a better one.
export function edit(event) {
  stop("propose");
  const [before, now, caret] = [whole(), target.value, target.selectionStart];
  let [head, same] = [0, 0]; // number of equal units at the beginning and at the end
  while (head < caret && before[head] === now[head]) head++;
  while (same < before.length - head && same < now.length - caret && before.at(-1 - same) === now.at(-1 - same)) same++;
  remember();
  const place = placed().find(({ begin, end }) => begin <= head && before.length - same <= end);
  if (!place) {
    Object.assign(state, { segments: [], tail: now, proposal: null }); // several sentences changed at once: all of it is now the user's own text
    return draw();
  }
  const { index, begin } = place;
  const text = now.slice(begin, now.length - (before.length - place.end));
  const [at, old] = [caret - begin, state.proposal?.index === index ? state.proposal : null];
  const typed = event.isComposing ? "" : (event.data ?? "");
  const prefix = text.slice(0, at);
  if (FINISHED.test(prefix) && (old || at === text.length)) {
    hold({ index, at, rest: "", shown: prefix }); // nothing is missing
    return draw(caret);
  }
  // The typed text may match the proposal.
  const along = old && typed && at === old.at + typed.length && text.startsWith(typed, at);
  const rest = text.slice(along ? at + typed.length : at);
  hold({ index, at, rest: rest && (old?.rest ?? rest), shown: text.slice(0, at) + rest });
  draw(caret);
  if (!along && !event.isComposing) later("propose", (signal) => propose(signal, index, prefix));
}

// The proposal is shown, but not part of the text until somebody types or accepts it.
function hold(proposal, more = {}) {
  const { index, at, rest, shown } = proposal;
  state.proposal = proposal;
  change(index, { text: shown.slice(0, at) + rest, ...more });
}

async function propose(signal, index, prefix) {
  const body = { ...asked(state.segments[index].sentence.source, index), ...glossary(), prefix, split: false };
  const best = (await ask(signal, "v1/translate", body)).sentences[0]?.translations[0];
  if (state.proposal?.index !== index || !best?.text.startsWith(prefix)) return;
  const { at, rest: old } = state.proposal;
  hold({ index, at, rest: best.text.length > at ? old : "", shown: best.text }, { best });
  draw();
  const rest = best.text.slice(prefix.length).trim();
  say(rest && `Proposed: “${rest}”. Tab accepts`);
}

export function accept() {
  const { index, shown } = state.proposal;
  stop("propose");
  remember();
  state.proposal = null;
  change(index, { text: shown });
  say("");
  draw(placed()[index].begin + shown.length);
}

export function dismiss() {
  const { index, at } = state.proposal;
  stop("propose");
  state.proposal = null;
  say("");
  draw(placed()[index].begin + at);
}

// Moving the cursor elsewhere rejects the proposal.
export function leaveProposal() {
  if (!state.proposal) return;
  const { index, at, rest, shown } = state.proposal;
  const { selectionStart: start, selectionEnd: end } = target;
  const here = placed()[index].begin + at;
  if (start === here) return;
  state.proposal = null;
  const moved = (place) => (place <= here ? place : Math.max(here, place - (shown.length - at) + rest.length));
  draw();
  target.setSelectionRange(moved(start), moved(end));
}
