// Which columns tell rows or people apart, by their names and by their cells; as kfed/_base/identifier_names.py and site/identifiers.py.

/** @typedef {import("./cells.js").Cells} Cells */

const FEWEST_ROWS = 20,
  MANY_PEOPLE = 20,
  ROWS_OF_ONE = 100,
  CODE = 1e4,
  SURE = 25,
  MOSTLY = 0.9;

const gap = "[^\\p{L}\\p{N}]*",
  before = "(.*[^\\p{L}\\p{N}])?",
  who = "(pat|patient(en)?|person(en)?|subj(ect)?|participant|proband|client|customer|user|member|kis|sap)",
  event = "(fall|case|episode|encounter|admission)",
  numbered = "nr|no|num|number",
  ref = "key|ref|reference",
  called = `(ids?|${numbered}|nummer|${ref}|names?)`,
  whole = (/** @type {string} */ form) => RegExp(`^(${form})$`, "iu");

const PERSONAL = whole(
  `${before}(mrn|pid|ptid|u?subjid|ssn|bsn|nhs|svnr|ahvn?|ipp|nino|pseudonym|pseudo_?id|surname|forename|vorname|nachname|zuname|familienname|(first|last|full|given|family|maiden|birth)${gap}name|pr[eé]nom|(e${gap})?mail(${gap}ad(dress|resse))?|(tele)?phone(${gap}(no|number))?|telefon|tel|fax|ad(dress|resse)|street|stra(ss|ß)e|iban|${who}${gap}${called}|${event}${gap}ids?|ids?[^\\p{L}\\p{N}]+(${who}|${event}))|names?`,
);
const PERSONAL_CAPITALS = /[a-z](MRN|Mrn|Pseudonym)$/;
const PEOPLE = whole(
  `${who}s?|fall|case|id[^\\p{L}\\p{N}].+|${before}(ids?|[ug]?uid|eid|names?|(${who}|${event})${gap}(${called}|code))`,
);
const PEOPLE_CAPITALS = /[a-z](ID|Id|Name)$/;
const ROWS = whole(
  `${before}(${numbered}|${ref})|.*nummer|(index|row|record|line|case|obs|observation)s?(${gap}(names?|index|id|${numbered}))?`,
);
const ROWS_CAPITALS = /[a-z](Nr|No|Num|Number|Key|Ref|Reference)$/;
const RUNNING = whole(`(lfd|laufende|seq|serial)?${gap}(nr|nummer)|(seq|serial)${gap}(no|number)`);

/** What a name says: that it is of people, of people if there are many values, of rows, of rows unless it counts. @param {string} name */
export function named(name) {
  const plain = name.replace(/([\p{L}\p{N}])\s*#\s*$/u, /(^|[^\p{L}\p{N}])ids?\s*#/iu.test(name) ? "$1" : "$1 no"),
    word = plain.replace(/[^\p{L}\p{N}]+$/u, ""),
    bare = plain.replace(/[^\p{L}]+$/u, ""),
    personal = PERSONAL.test(bare) || PERSONAL_CAPITALS.test(bare),
    people = personal || PEOPLE.test(bare) || PEOPLE_CAPITALS.test(bare),
    rows = people || ROWS.test(word) || ROWS_CAPITALS.test(word) || /^Unnamed: 0(\.\d+)?$|^__index_level_\d+__$/.test(name),
    counts = !people && /(nr|no|num|number)$/i.test(word) && !RUNNING.test(word) && (word === name || !/^no$/i.test(word));
  return { personal, people, rows, counts };
}

/** Whether a column tells rows or people apart. @param {Cells} cells @param {boolean} hasIds whether it is known whose the rows are */
export function isIdentifier(cells, hasIds) {
  const isText = !cells.numbers,
    known = [...(cells.numbers ?? cells.codes)].filter((x) => (isText ? x >= 0 : x === x)),
    n = known.length;
  if (!n || (!isText && (cells.kind !== "number" || known.some((x) => x % 1)))) return false;
  const { personal, people, rows, counts } = named(cells.name),
    times = new Map();
  known.forEach((x) => times.set(x, (times.get(x) ?? 0) + 1));
  const size = times.size,
    [low, high] = known.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]),
    isLarge = n >= (rows && !counts ? 1 : FEWEST_ROWS),
    isCounter = [1, -1].some((step) => known.every((x, i) => x === known[0] + step * i)),
    isShuffled = n === size && n * (n - 1) > 2 * SURE * (high - low + 1);
  if (isLarge) {
    if (size >= (rows && !counts ? MOSTLY * n : n) && (isText || rows)) return true;
    if (!isText && ((n >= FEWEST_ROWS && isCounter) || isShuffled || (rows && Math.max(-low, high) > 2 ** 53))) return true;
    if (people && (size > MANY_PEOPLE || 3 * size >= n)) return true;
  }
  if (personal && (isText || size > 2)) return true;
  const often = [...times.values()].sort((a, b) => a - b);
  if (hasIds || size <= MANY_PEOPLE || often.filter((c) => c > 1).length < MOSTLY * size || often[size >> 1] > ROWS_OF_ONE) return false;
  return isText ? size <= 50 && 2 * size <= n : low >= CODE && `${low}`.length === `${high}`.length && (high - low) / step(times.keys(), low) >= 4 * size;
}

/** The largest number that all differences are multiples of. @param {Iterable<number>} values @param {number} low */
function step(values, low) {
  let found = 0;
  for (const x of values) for (let rest = x - low; rest; ) [found, rest] = [rest, found % rest];
  return found;
}
