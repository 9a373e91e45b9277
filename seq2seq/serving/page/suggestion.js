// Sentences that a person accepts or corrects, and the service keeps. Grey words are not the person's
// own, so nothing is sent while there are any.
import { find, say } from "./dom.js";
import { ask } from "./service.js";
import { chosen, isProposed, state } from "./state.js";

const sent = new Map(); // translation by source sentence

const WAITING = "Tab accepts the grey words, Esc removes them";

const isProposedIn = (segment) => isProposed() && state.segments[state.proposal.index] === segment;
const isSent = ({ sentence, text }) => sent.get(sentence.source) === text;

export function drawSuggestion(segment) {
  const button = find("#suggest");
  button.hidden = !state.settings.suggestions || !segment?.text.trim();
  if (button.hidden) return;
  const isOpen = isProposedIn(segment);
  const isChanged = segment.text !== segment.sentence.translations[0].text;
  const label = isSent(segment) ? "Sent" : isChanged ? "Send correction" : "Accept";
  const textContent = isOpen ? WAITING : `${label}: ${segment.text}`;
  Object.assign(button, { textContent, ariaDisabled: String(isOpen || isSent(segment)) });
}

export async function suggest(signal, segment) {
  if (!segment || isSent(segment)) return;
  if (isProposedIn(segment)) return say(WAITING);
  const [{ text, sentence }, { source, target }] = [segment, chosen()];
  await ask(signal, "suggest", { q: sentence.source, s: text, source, target });
  sent.set(sentence.source, text);
  drawSuggestion(segment);
  say("The service keeps this sentence and its translation");
}
