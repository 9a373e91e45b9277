// A sentence that a person accepts, or corrects, and that the service keeps.
import { find, say } from "./dom.js";
import { ask } from "./service.js";
import { chosen, state } from "./state.js";

const sent = new Map(); // translations by their sentences

const isSent = ({ sentence, text }) => sent.get(sentence.source) === text;

export function drawSuggestion(segment) {
  const button = find("#suggest");
  button.hidden = !state.settings.suggestions || !segment?.text.trim();
  if (button.hidden) return;
  const isChanged = segment.text !== segment.sentence.translations[0].text;
  const label = isSent(segment) ? "Sent" : isChanged ? "Send correction" : "Accept";
  Object.assign(button, { textContent: `${label}: ${segment.text}`, ariaDisabled: String(isSent(segment)) });
}

export async function suggest(signal, segment) {
  if (!segment || isSent(segment)) return;
  const [{ text, sentence }, { source, target }] = [segment, chosen()];
  await ask(signal, "suggest", { q: sentence.source, s: text, source, target });
  sent.set(sentence.source, text);
  drawSuggestion(segment);
  say("The service keeps this sentence and its translation");
}
