// Plain sentences: numbers with their nouns, lists, and what a message holds, as `kfed inspect` says it.

/** @typedef {import("./wire.js").Message} Message */

/** Stop with an error whose words are for people. @param {string} words @returns {never} */
export function fail(words) {
  throw new Error(words);
}

export const count = new Intl.NumberFormat("en");

/** @param {number} n @param {string} noun */
export const plural = (n, noun) => `${count.format(n)} ${noun}${n === 1 ? "" : "s"}`;

/** @param {string[]} names */
export const listed = (names, limit = 8) =>
  names.slice(0, limit).join(", ") + (names.length > limit ? ` and ${count.format(names.length - limit)} more` : "");

/** @param {string[]} names */
export function quoted(names) {
  const all = names.map((name) => `“${name}”`);
  return all.length > 1 && all.length <= 8 ? `${all.slice(0, -1).join(", ")} and ${all[all.length - 1]}` : listed(all);
}

/** @type {(column: import("./kinds.js").Column) => string[]} */
export const featuresOf = (column) =>
  column.kind === "category" || column.kind === "empty"
    ? column.levels.map((level) => `${column.name} = ${level}`)
    : [column.name];

/** What a message holds, what it does not, and what to think of before it is sent. @param {Message} message @param {number} least @param {number} nRows */
export function described(message, least, nRows) {
  const { centers, counts, details, schema } = message,
    total = counts.reduce((a, b) => a + b, 0),
    hidden = details ? details.observed.data.filter((n) => n === 0).length : 0;
  const kinds = schema?.columns.map((column) =>
    column.kind === "number"
      ? column.name
      : `${column.name} (${column.kind}${column.levels.length ? `: ${column.levels.join(", ")}` : ""})`,
  );
  const holds = [
    `the name of this site: ${quoted([message.deviceId])}`,
    `${plural(centers.n, "center")} of ${plural(centers.d, "number")}: each is the average of a group of rows`,
    ...(counts.length
      ? [`how many rows each group has: ${count.format(total)} in all, ${count.format(Math.min(...counts))} in the smallest`]
      : []),
    ...(message.squares && counts.length
      ? ["how spread out each group is (sum of squares; small groups send a shared one)"]
      : []),
    ...(message.deviation !== null && counts.length
      ? ["how far all rows are from their centers: one number, the largest singular value or up to 4 % above it"]
      : []),
    ...(kinds
      ? [`what the columns are: ${listed(kinds, 20)}`]
      : message.names
        ? [`the names of the columns: ${listed(message.names, 20)}`]
        : []),
    ...(details ? ["of each column and group, how many cells are filled, and how far they are from the center on average"] : []),
    ...(details?.leftOut ? [`how many rows are in none of these groups: ${count.format(details.leftOut)}`] : []),
  ];
  const lacks = [
    "any row as such; the average of a few rows does say something about each of them",
    "ids of rows, or the group of a row",
    `groups of fewer than ${least} different rows or people, or whose average is a row`,
    ...(hidden ? [`${plural(hidden, "average")} with too few filled cells behind ${hidden === 1 ? "it" : "them"}`] : []),
  ];
  const warnings = [];
  if (!counts.length) warnings.push("No group is large enough to be sent: look for fewer groups, or leave this site out.");
  else if (Math.min(...counts) < 5)
    warnings.push(`A group has ${plural(Math.min(...counts), "row")}, so its center says much about each of them.`);
  if (counts.length && total < nRows / 2)
    warnings.push(`Most rows are in groups that stay here: ${count.format(nRows - total)} of ${count.format(nRows)}.`);
  return { holds, lacks, warnings };
}
