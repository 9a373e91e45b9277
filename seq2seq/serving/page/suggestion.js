// Sentences that a person accepts or corrects, and the service keeps. Grey words are not the person's
// own, so nothing is sent while there are any.
import { find, say } from "./dom.js";
import { ask, attempt } from "./service.js";
import { chosen, isProposed, state } from "./state.js";

const GRACE = 5; // seconds in which an accepted sentence can be withdrawn
const sent = new Map(); // translation by source sentence
let shown = null; // the segment that the button is for
let pending = null; // accepted, and not kept by the service yet: {body, timer: 0 while it is sent}

const WAITING = "Tab accepts the grey words, Esc removes them";

const isProposedIn = (segment) => isProposed() && state.segments[state.proposal.index] === segment;
const isPending = ({ sentence, text }) => pending?.body.q === sentence.source && pending.body.s === text;
const isSent = ({ sentence, text }) => sent.get(sentence.source) === text;

export function drawSuggestion(segment) {
  shown = segment;
  const button = find("#suggest");
  button.hidden = !state.settings.suggestions || !segment?.text.trim();
  if (button.hidden) return;
  const isOpen = isProposedIn(segment);
  const isChanged = segment.text !== segment.sentence.translations[0].text;
  const isHeld = isPending(segment);
  const label = isSent(segment) ? "Sent" : isHeld ? (pending.timer ? "Undo" : "Sending") : isChanged ? "Send correction" : "Accept";
  const textContent = isOpen ? WAITING : `${label}: ${segment.text}`;
  Object.assign(button, { textContent, ariaDisabled: String(isOpen || isSent(segment) || (isHeld && !pending.timer)) });
}

const redraw = () => drawSuggestion(shown);

// Accept a sentence, which is sent a little later; a second time withdraws it.
export function suggest(segment) {
  if (!segment || isSent(segment) || state.isStale) return;
  if (isProposedIn(segment)) return say(WAITING);
  if (isPending(segment)) return withdraw();
  send(); // what was accepted before
  const [{ text, sentence }, { source, target }] = [segment, chosen()];
  const body = { q: sentence.source, s: text, source, target };
  pending = { body, timer: setTimeout(send, GRACE * 1000) };
  redraw();
  say(`Accepted, and sent in ${GRACE} seconds unless you undo it`);
}

function withdraw() {
  if (!pending.timer) return;
  clearTimeout(pending.timer);
  pending = null;
  redraw();
  say("Not sent");
}

export function send() {
  if (!pending?.timer) return;
  const own = pending;
  clearTimeout(own.timer);
  own.timer = 0;
  redraw();
  attempt(`suggest ${own.body.q}`, async (signal) => {
    try {
      await ask(signal, "suggest", own.body);
      sent.set(own.body.q, own.body.s);
    } finally {
      if (pending === own) pending = null;
      redraw();
    }
    say("The service keeps this sentence and its translation");
  });
}
