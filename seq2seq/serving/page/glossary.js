// Terms and their translations, which only the page knows, until it is closed.
import { element, find } from "./dom.js";
import { chosen } from "./state.js";

const list = find("#glossary ol");
const entries = []; // {language code: term}, for all pairs of languages in both directions

const languages = () => [chosen().source, chosen().target];

function pairs() {
  const terms = entries.map((entry) => languages().map((code) => entry[code]?.trim()));
  return terms.filter(([from, to]) => from && to);
}

// The field of a request; left out if there are no pairs, since not every service knows it.
export const glossary = () => (pairs().length ? { glossary: pairs() } : {});

export function drawGlossary() {
  const shown = entries.filter((entry) => languages().every((code) => code in entry));
  list.replaceChildren(...[...shown, null].map(row));
  countPairs();
}

const countPairs = () => (find("#glossary summary").textContent = pairs().length ? `Glossary (${pairs().length})` : "Glossary");
list.addEventListener("input", countPairs);

// The inputs for a pair of terms; null is the empty pair at the end of the list.
function row(entry) {
  const item = element("li", "");
  const inputs = languages().map((code, n) => {
    const name = chosen()[n ? "target_name" : "source_name"];
    const input = element("input", "", { value: entry?.[code] ?? "", lang: code, dir: "auto", placeholder: name, ariaLabel: `${name} term` });
    input.autocomplete = "off";
    return input;
  });
  const remove = element("button", "×", { type: "button", ariaLabel: "Remove the pair", title: "Remove the pair", hidden: !entry });
  item.oninput = () => {
    if (!entry) {
      entries.push((entry = {}));
      remove.hidden = false;
      list.append(row(null));
    }
    languages().forEach((code, n) => (entry[code] = inputs[n].value));
  };
  remove.onclick = () => {
    entries.splice(entries.indexOf(entry), 1);
    item.nextElementSibling.querySelector("input").focus();
    item.remove();
    list.dispatchEvent(new Event("input", { bubbles: true }));
  };
  item.append(inputs[0], element("span", "→"), inputs[1], remove);
  return item;
}
