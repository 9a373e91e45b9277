// Other ways to continue from a word of the translation.
import { element, find, percent, say, target } from "./dom.js";
import { atCursor, spansOf } from "./drawing.js";
import { asked, choose } from "./editing.js";
import { ask, later, stop } from "./service.js";
import { chosen, placed, state } from "./state.js";
import { segmented, wordsOf } from "./words.js";

export const ways = find("#ways");
let anchor = null; // the word for which they are shown

export const openWays = (enter) => later("ways", (signal) => offer(signal, enter), 0);

async function offer(signal, enter) {
  const word = atCursor();
  if (word?.side !== "target") return;
  const { segment } = placed()[word.index];
  const { text, sentence } = segment;
  const prefix = text.slice(0, wordsOf(segment, chosen().target)[word.word].start);
  const answer = await ask(signal, "v1/alternatives", { ...asked(sentence.source, word.index), prefix, count: state.many });
  const found = answer.sentences[0].translations.filter((each) => each.text.startsWith(prefix) && each.text !== prefix);
  if (!found.length) return say("There is no other way to go on here");
  ways.replaceChildren(...found.map((translation) => option(translation, word.index, prefix)));
  ways.hidden = false;
  anchor = word;
  placeWays();
  say(`${found.length} ways to go on; arrow down, then Enter chooses`);
  if (enter) ways.firstElementChild.focus();
}

function option(translation, index, prefix) {
  const rest = translation.text.slice(prefix.length);
  const first = segmented(rest, chosen().target)[0]?.end ?? rest.length;
  const text = element("bdi", rest.slice(0, first), { lang: chosen().target });
  text.append(element("span", rest.slice(first)));
  const onclick = () => {
    closeWays();
    choose(index, translation, prefix.length + first);
  };
  const item = element("li", "", { role: "option", tabIndex: -1, onclick });
  item.append(text, element("small", percent(translation.confidence)));
  return item;
}

// Place the list below the word, or above it if there is no room.
export function placeWays() {
  if (ways.hidden) return;
  const [box, at] = [ways.parentElement, spansOf(anchor)[0]].map((each) => each.getBoundingClientRect());
  const { offsetWidth: width, offsetHeight: height } = ways;
  const [below, above] = [at.bottom + 4, at.top - 4 - height];
  ways.style.left = `${Math.max(box.left, Math.min(at.left, box.right - width))}px`;
  ways.style.top = `${below + height > innerHeight && above >= 0 ? above : below}px`;
}

export function closeWays() {
  stop("ways");
  if (ways.contains(document.activeElement)) target.focus();
  ways.hidden = true;
}

export function moveInWays(event) {
  const options = [...ways.children];
  const here = options.indexOf(document.activeElement);
  const places = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: -1 };
  if (event.key in places) options.at(places[event.key] % options.length).focus();
  else if (event.key === "Enter") options[here].click();
  else if (event.key === "Escape" || event.key === "Tab") closeWays();
  else return;
  event.preventDefault();
}
