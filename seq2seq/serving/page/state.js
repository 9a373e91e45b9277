// What the page knows: the models, the sentences of the translation, and what was before them.
import { model, target } from "./dom.js";

export const state = {
  models: [],
  limits: {}, // of a request
  settings: {}, // what else the service does
  many: 5, // translations of a sentence
  // The sentences: {gap: what is before it in the translation, text: its translation, sentence: what
  // the service answered, best: its answer that is shown, or was before a person edited it, edited}.
  segments: [],
  tail: "", // of the translation, after the last sentence
  proposal: null, // {index: of the segment, at: where it begins in its text, rest: what stood there}
  history: [], // of segments and tail
  pointed: null, // the word under the pointer: {side, index: of the segment, word}
};

export const chosen = () => state.models[model.selectedIndex];

export const whole = () => state.segments.map(({ gap, text }) => gap + text).join("") + state.tail;

// The segments with their places in the translation.
export function placed() {
  let end = 0;
  return state.segments.map((segment, index) => {
    const begin = end + segment.gap.length;
    end = begin + segment.text.length;
    return { segment, index, begin, end };
  });
}

export function remember() {
  const { segments, tail } = state;
  state.history = [...state.history.slice(-99), { segments, tail, caret: target.selectionStart }];
}

export function change(index, changed) {
  state.segments = state.segments.with(index, { ...state.segments[index], ...changed, edited: true });
}
