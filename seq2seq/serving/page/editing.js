// The translation is edited.
import { say, target } from "./dom.js";
import { draw } from "./drawing.js";
import { glossary } from "./glossary.js";
import { ask, later, stop } from "./service.js";
import { change, chosen, placed, remember, state, whole } from "./state.js";

export const asked = (text) => ({ text, model: chosen().name, links: chosen().links });

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

// What is after the cursor in a sentence becomes a proposal, until the service has a better one.
export function edit(event) {
  stop("propose");
  const [before, now, caret] = [whole(), target.value, target.selectionStart];
  let [head, same] = [0, 0]; // units that are equal at the begin, and at the end
  while (head < caret && before[head] === now[head]) head++;
  while (same < before.length - head && same < now.length - caret && before.at(-1 - same) === now.at(-1 - same)) same++;
  remember();
  const place = placed().find(({ begin, end }) => begin <= head && before.length - same <= end);
  if (!place) {
    Object.assign(state, { segments: [], tail: now, proposal: null }); // several sentences at once: a text of one's own
    return draw();
  }
  const { index, begin } = place;
  const text = now.slice(begin, now.length - (before.length - place.end));
  const [at, old] = [caret - begin, state.proposal?.index === index ? state.proposal : null];
  const typed = event.isComposing ? "" : (event.data ?? "");
  // What is typed may be what was proposed.
  const along = old && typed && at === old.at + typed.length && text.startsWith(typed, at);
  const rest = text.slice(along ? at + typed.length : at);
  state.proposal = { index, at, rest: old?.rest ?? rest };
  change(index, { text: text.slice(0, at) + rest });
  draw(caret);
  if (!along && !event.isComposing) later("propose", (signal) => propose(signal, index, text.slice(0, at)));
}

async function propose(signal, index, prefix) {
  const body = { ...asked(state.segments[index].sentence.source), ...glossary(), prefix, split: false };
  const best = (await ask(signal, "v1/translate", body)).sentences[0]?.translations[0];
  if (state.proposal?.index !== index || !best?.text.startsWith(prefix)) return;
  change(index, { text: best.text, best });
  draw();
  const rest = best.text.slice(prefix.length).trim();
  say(rest && `Proposed: “${rest}”. Tab accepts`);
}

function settle(text, caret) {
  const { index } = state.proposal;
  stop("propose");
  remember();
  state.proposal = null;
  change(index, { text });
  say("");
  draw(placed()[index].begin + caret);
}

const proposed = () => state.segments[state.proposal.index].text;
export const isProposed = () => Boolean(state.proposal && proposed().length > state.proposal.at);
export const accept = () => settle(proposed(), proposed().length);
export const dismiss = () => settle(proposed().slice(0, state.proposal.at) + state.proposal.rest, state.proposal.at);

// One who goes on elsewhere leaves a proposal as it is.
export function leaveProposal() {
  const { proposal } = state;
  if (!proposal || target.selectionStart === placed()[proposal.index].begin + proposal.at) return;
  state.proposal = null;
  draw();
}
