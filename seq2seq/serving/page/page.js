// The page of the service: a text, its translation, and what the model knows about both. This module
// has the event listeners; what they do is in the other modules.
import { find, from, into, model, others, say, source, target } from "./dom.js";
import { currentIndex, drawOthers, known, mark, sayLinks, showLinks } from "./drawing.js";
import { accept, choose, dismiss, edit, leaveProposal, undo } from "./editing.js";
import { openFile } from "./files.js";
import { attempt, useKey } from "./service.js";
import { isProposed, state, whole } from "./state.js";
import { send, suggest } from "./suggestion.js";
import { changeModel, changeSource, offerLanguages, start, swap } from "./translation.js";
import { closeWays, moveInWays, openWays, placeWays, ways } from "./ways.js";

const on = (selector, kind, action) => find(selector).addEventListener(kind, action);

// --- the source -----------------------------------------------------------------------------------

source.addEventListener("input", () => changeSource());
on("#clear", "click", () => {
  source.focus();
  source.select();
  document.execCommand("delete"); // unlike setting the value, this can be undone
  closeWays();
});
on("#open", "click", () => find("#file").click());
on("#file", "change", ({ target: input }) => {
  const [file] = input.files;
  if (file) attempt("file", (signal) => openFile(signal, file));
  input.value = ""; // so that the same file can be opened again
});

// --- the translation ------------------------------------------------------------------------------

target.addEventListener("input", (event) => {
  closeWays();
  edit(event);
});
target.addEventListener("compositionend", () => edit({}));
target.addEventListener("click", () => target.selectionStart === target.selectionEnd && openWays(false));
target.addEventListener("keydown", (event) => {
  const keys = {
    Tab: isProposed() && !event.shiftKey && accept,
    Escape: ways.hidden ? state.proposal && dismiss : closeWays,
    ArrowDown: ways.hidden ? event.altKey && (() => openWays(true)) : () => ways.firstElementChild.focus(),
    z: (event.ctrlKey || event.metaKey) && !event.shiftKey && undo,
    Enter: (event.ctrlKey || event.metaKey) && state.settings.suggestions && sendSentence,
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
ways.addEventListener("keydown", moveInWays);
for (const kind of ["scroll", "resize"]) addEventListener(kind, placeWays, true);
document.addEventListener("pointerdown", (event) => ways.contains(event.target) || closeWays());
others.addEventListener("click", (event) => {
  const item = event.target.closest("li");
  const index = currentIndex();
  if (item) choose(index, state.segments[index].sentence.translations[item.dataset.rank]);
});
const sendSentence = () => suggest(state.segments[currentIndex()]);
on("#suggest", "click", sendSentence);
on("#suggest", "keydown", (event) => event.key === "Enter" && event.preventDefault()); // often meant for the text
addEventListener("pagehide", send);
on("#copy", "click", async () => {
  await navigator.clipboard?.writeText(target.value).catch(() => null);
  if (!navigator.clipboard) {
    target.select(); // a page without TLS has no clipboard API
    document.execCommand("copy");
  }
  say("Copied");
});

// --- both -----------------------------------------------------------------------------------------

for (const area of [source, target]) {
  area.addEventListener("keydown", (event) => event.altKey && event.key === "ArrowUp" && (event.preventDefault(), sayLinks()));
  for (const kind of ["pointermove", "pointerleave"]) {
    area.addEventListener(kind, (event) => {
      const under = kind === "pointermove" ? document.elementsFromPoint(event.clientX, event.clientY) : [];
      const span = under.find((each) => each.dataset.word);
      state.pointed = span ? known(span) : null;
      mark();
    });
  }
}
document.addEventListener("selectionchange", () => {
  if (document.activeElement !== source && document.activeElement !== target) return;
  leaveProposal();
  drawOthers();
  showLinks();
});

// --- the head -------------------------------------------------------------------------------------

model.addEventListener("change", offerLanguages);
for (const select of [from, into]) select.addEventListener("change", changeModel);
on("#swap", "click", () => {
  state.proposal = null;
  [source.value, state.segments] = [whole(), []];
  swap();
});
on("#glossary", "input", () => changeSource());
on("#key", "submit", (event) => {
  event.preventDefault();
  useKey();
  attempt("models", start);
});
attempt("models", start);
