// Which columns tell rows or people apart, by their names and by their cells; as kfed/_base/identifier_names.py and site/kinds/identifiers.py.

/** @typedef {import("./cells.js").Cells} Cells */

const FEWEST_ROWS = 20, // and fewest people
  ROWS_OF_ONE = 100,
  CODE = 1e4,
  SURE = 25,
  MOSTLY = 0.9;

// Names are compared in small letters, with one space between words: / ?/ is one word or two.
const who = "(pat|patient(en)?|person(en)?|subj(ect)?|participant|proband|client|customer|user|member|kis|sap)",
  event = "(fall|case|episode|encounter|admission)",
  numbered = "nr|no|num|number",
  ref = "key|ref|reference",
  called = `(ids?|${numbered}|nummer|${ref}|names?)`,
  whole = (/** @type {string} */ form) => RegExp(`^(${form})$`);

const PERSONAL = whole(
  `(.* )?(mrn|pid|ptid|u?subjid|ssn|bsn|nhs|svnr|ahvn?|ipp|nino|pseudonym|pseudo ?id|(sur|fore|vor|nach|zu|familien|(first|last|full|given|family|maiden|birth) ?)name|pr[eé]nom|(e ?)?mail( ?add?resse?)?|(tele)?phone( ?(no|number))?|telefon|tel|fax|add?resse?|street|stra(ss|ß)e|iban|${who} ?${called}|${event} ?ids?|ids? (${who}|${event}))|names?`,
);
const PEOPLE = whole(`${who}s?|fall|case|id .+|(.* )?(ids?|[ueg]?u?id|names?|(${who}|${event}) ?(${called}|code))`);
const ROWS = whole(
  `(.* )?(${numbered}|${ref})|.*nummer|(index|row|record|line|case|obs|observation)s?( ?(names?|index|id|${numbered}))?|unnamed 0( \\d+)?|index level \\d+`,
);
const COUNTS = whole(`.*(${numbered})`),
  RUNNING = whole(`((lfd|laufende|seq|serial) ?)?(nr|nummer|no)|(seq|serial) ?number`);

/** What a name says: that it is of people, of people if there are many values, of rows, of a count or rows. @param {string} name */
export function named(name) {
  const word = name
      .replace(/(ids?)?\s*#\s*$/i, (_, id) => id ?? " no")
      .replace(/([a-z])([A-Z])/g, "$1 $2")
      .replace(/[^\p{L}\p{N}]+/gu, " ")
      .trim()
      .toLowerCase(),
    bare = word.replace(/[ \d]+$/, ""),
    isPersonal = PERSONAL.test(bare),
    isPeople = isPersonal || PEOPLE.test(bare);
  return [isPersonal, isPeople, isPeople || ROWS.test(word), !isPeople && COUNTS.test(word) && !RUNNING.test(word)];
}

/** Whether a column tells rows or people apart. @param {Cells} cells @param {boolean} hasIds whether it is known whose the rows are */
export function isIdentifier(cells, hasIds) {
  const isText = !cells.numbers,
    known = [...(cells.numbers ?? cells.codes)].filter((x) => (isText ? x >= 0 : x === x)),
    n = known.length,
    times = new Map();
  if (!n || (!isText && (cells.kind !== "number" || known.some((x) => x % 1)))) return false;
  known.forEach((x) => times.set(x, (times.get(x) ?? 0) + 1));
  const [isPersonal, isPeople, isRows, mayCount] = named(cells.name),
    isNamed = isRows && !mayCount,
    values = [...times.keys()].sort((a, b) => a - b),
    often = [...times.values()].sort((a, b) => a - b),
    size = values.length,
    low = values[0],
    high = values[size - 1];
  return (
    ((n >= FEWEST_ROWS || isNamed) &&
      (((isText || isRows) && size >= (isNamed ? MOSTLY : 1) * n) ||
        (!isText && size === n && n * (n - 1) > 2 * SURE * (high - low + 1)) ||
        (!isText && n >= FEWEST_ROWS && [1, -1].some((step) => known.every((x, i) => x === known[0] + step * i))) ||
        (isPeople && (size > FEWEST_ROWS || 3 * size >= n)))) ||
    (isPersonal && (isText || size > 2)) ||
    (!hasIds &&
      size > FEWEST_ROWS &&
      often[Math.floor(size / 10)] > 1 &&
      often[size >> 1] <= ROWS_OF_ONE &&
      (isText ? size <= 50 : low >= CODE && `${low}`.length === `${high}`.length && (high - low) / step(values) >= 4 * size))
  );
}

/** The largest number that all differences are multiples of. @param {number[]} values */
const step = (values) =>
  values.reduce((found, x) => {
    for (let rest = x - values[0]; rest; ) [found, rest] = [rest, found % rest];
    return found;
  }, 0);
