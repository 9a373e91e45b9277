// Positions in texts.
const UNSURE = 0.3; // a word with a piece less probable than this is marked

// The number of code points, as the service counts characters.
export const countCharacters = (text) => text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0);

// The position of each unit of a sentence in its text. White space in the sentence is single spaces.
export function placesOf(sentence, text, from) {
  const words = sentence.split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(words.join("\\s+"), "gu");
  pattern.lastIndex = from;
  let place = pattern.exec(text)?.index;
  return place === undefined ? null : [...sentence.split(""), ""].map((unit) => {
    const here = place++;
    if (/\s/.test(unit)) while (/\s/.test(text[place] ?? "")) place++;
    return here;
  });
}

// Convert positions: the service counts code points, JavaScript units of UTF-16.
export function inUnits(text, words) {
  const places = [0];
  for (const character of text) places.push(places.at(-1) + character.length);
  return words.map(({ start, end }) => ({ start: places[start], end: places[end] }));
}

export function segmented(text, language) {
  const parts = [...new Intl.Segmenter(language, { granularity: "word" }).segment(text)];
  return parts.filter((part) => part.isWordLike).map(({ index, segment }) => ({ start: index, end: index + segment.length }));
}

export const isAnswer = ({ text, best }) => text === best.text;
export const isLinked = (segment) => Boolean(isAnswer(segment) && segment.best.words?.length);

export function wordsOf(segment, language) {
  return isLinked(segment) ? inUnits(segment.text, segment.best.words) : segmented(segment.text, language);
}

// The pieces of which the model was not sure; none if the pieces do not spell the text.
export function unsureOf({ text, best }) {
  const pieces = best.tokens.filter(([piece]) => piece !== "</s>");
  const whole = pieces.map(([piece]) => piece).join("");
  if (whole.trim() !== text.trim()) return [];
  let end = text.length - text.trimStart().length - (whole.length - whole.trimStart().length);
  const places = pieces.map(([piece, logp]) => ({ start: end, end: (end += piece.length), logp }));
  return places.filter(({ logp }) => Math.exp(logp) < UNSURE);
}

export const overlap = (a, b) => a.start < b.end && b.start < a.end;
