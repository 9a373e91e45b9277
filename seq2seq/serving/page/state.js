// What the page knows: the models, the sentences of the translation, and what was before them.
import { model, target } from "./dom.js";

export const state = {
  models: [],
  limits: {}, // of a request
  settings: {}, // what else the service does
  many: 5, // translations of a sentence
  // The sentences: {gap: what is before it in the translation, text: its translation, without what is
  // only proposed, sentence: what the service answered, best: its answer that is shown, or was before
  // a person edited it, edited}.
  segments: [],
  tail: "", // of the translation, after the last sentence
  // Grey words that nobody has accepted: {index: of the segment, at: where they begin in its text,
  // rest: what stands there until then, shown: the text of the segment with them}.
  proposal: null,
  history: [], // of segments and tail
  pointed: null, // the word under the pointer: {side, index: of the segment, word}
};

export const chosen = () => state.models[model.selectedIndex];

export const whole = () => placed().map(({ segment: { gap, text } }) => gap + text).join("") + state.tail;

// The segments as they are shown, with what is proposed, and their places in the translation.
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
