// Elements of the page, and messages next to what they are about.
export const find = (selector) => document.querySelector(selector);
export const [source, target, model, others] = ["#source", "#target", "#model", "#others"].map(find);
export const [from, into] = ["#from", "#into"].map(find); // the languages of a model of several

// Anything from outside is only ever set as text.
export function element(name, text, properties = {}) {
  return Object.assign(document.createElement(name), { textContent: text, ...properties });
}

export const percent = (value) => `${Math.round(value * 100)} %`;
export const number = (value) => value.toLocaleString("en");

// at: "header", "source" or "target"; wrong: true for errors, which stand out.
export function say(text, { at = "target", wrong = false } = {}) {
  const status = find(`#${at}-status`);
  status.classList.toggle("wrong", wrong && text !== "");
  if (status.textContent !== text) status.textContent = text; // otherwise a screen reader would repeat it
}
