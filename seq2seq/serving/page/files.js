// The user's files. The text of a text file goes into the source pane; other files are translated as a
// whole if the service does that, and downloaded.
import { element, find, number, say, source } from "./dom.js";
import { ask } from "./service.js";
import { chosen, state } from "./state.js";
import { countCharacters } from "./words.js";

export const formats = () => (state.settings.filesTranslation ? (state.settings.supportedFilesFormat ?? []) : []);

export async function openFile(signal, file) {
  say("", { at: "source" });
  const limit = state.limits.characters;
  const suffix = file.name.match(/\.[^.]*$/)?.[0].toLowerCase();
  const isWhole = formats().includes(suffix);
  // A character has at most four bytes, so longer files need not be read.
  const text = (isWhole && suffix !== ".txt") || file.size > 4 * limit ? null : await readText(file);
  if (isWhole && (text === null || countCharacters(text) > limit)) return translateFile(signal, file, suffix);
  if (text === null) throw new Error(`${file.name} is too long: at most ${number(limit)} characters are translated at once`);
  source.value = text;
  source.focus();
  source.setSelectionRange(0, 0);
  source.parentElement.scrollTop = 0;
  source.dispatchEvent(new Event("input"));
}

async function readText(file) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return text;
  } catch {} // not a text
  throw new Error(`${file.name} is not a text file. Supported: ${["text in UTF-8", ...formats()].join(", ")}`);
}

async function translateFile(signal, file, suffix) {
  const body = new FormData();
  const fields = { file, source: chosen().source, target: chosen().target };
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  say(`Translating ${file.name} …`, { at: "source" });
  const progress = find("progress");
  progress.hidden = false;
  const content = await fetchTranslation(signal, body).finally(() => signal.aborted || (progress.hidden = true)); // a newer file goes on
  const name = `${file.name.slice(0, -suffix.length)}_${chosen().target}${suffix}`;
  URL.revokeObjectURL(find("#source-status a")?.href);
  const link = element("a", name, { href: URL.createObjectURL(content), download: name });
  say("", { at: "source" });
  find("#source-status").append(link, " is translated, and in your downloads");
  link.click();
}

async function fetchTranslation(signal, body) {
  const { translatedFileUrl } = await ask(signal, "translate_file", body);
  const { pathname, search } = new URL(translatedFileUrl, location); // a server behind a proxy may not know its own name
  return ask(signal, pathname + search, null, (response) => response.blob());
}
