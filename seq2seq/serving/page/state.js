// The state of the page: the models, the sentences of the translation, and the history for undo.
import { from, into, model, target } from "./dom.js";

export const state = {
  models: [],
  limits: {}, // on a request
  settings: {}, // other features of the service
  many: 5, // number of translations of a sentence
  // The sentences: {gap: text between it and the previous one, text: its translation, without the
  // proposal, sentence: the service's answer, best: the translation in that answer that is shown, or
  // was shown before it was edited, edited: true if the user has changed it}.
  segments: [],
  tail: "", // text of the translation after the last sentence
  // Grey words that nobody has accepted: {index: the segment's, at: where they begin in its text,
  // rest: the text from there on if they are rejected, shown: the segment's text with them}.
  proposal: null,
  history: [], // earlier segments and tails
  isStale: false, // the source has changed, and its translation is not there yet
  pointed: null, // the word under the pointer: {side, index: the segment's, word}
};

// The chosen model, with the chosen languages if it has several.
export function chosen() {
  const each = state.models[model.selectedIndex];
  if (!each?.languages) return each;
  const [source, target] = [from, into].map(({ selectedIndex }) => each.languages[Math.max(0, selectedIndex)]);
  const names = { source_name: source.name, target_name: target.name };
  return { ...each, source: source.language, target: target.language, ...names };
}

export const whole = () => placed().map(({ segment: { gap, text } }) => gap + text).join("") + state.tail;

// The segments as shown, including the proposal, and their positions in the translation.
export function placed() {
  let end = 0;
  return state.segments.map((segment, index) => {
    const text = state.proposal?.index === index ? state.proposal.shown : segment.text;
    const begin = end + segment.gap.length;
    end = begin + text.length;
    return { segment: { ...segment, text }, index, begin, end };
  });
}

export const isProposed = () => Boolean(state.proposal && state.proposal.shown.length > state.proposal.at);

export function remember() {
  const { segments, tail } = state;
  state.history = [...state.history.slice(-99), { segments, tail, caret: target.selectionStart }];
}

export function change(index, changed) {
  state.segments = state.segments.with(index, { ...state.segments[index], ...changed, edited: true });
}
