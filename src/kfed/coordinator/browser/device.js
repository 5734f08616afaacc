// From the values of a table to what stays here and what may leave: `cluster_device` and `cluster_columns` of kfed.device.

import { isLarge, localKmeans } from "./algorithm1.js";
import { chooseLocalK } from "./choosing.js";
import { columnFacts, completed, countedRows, ownScale } from "./columns.js";
import { points, taken } from "./points.js";
import { deviceKey } from "./random.js";
import { measure } from "./withholding.js";

/** @typedef {import("./points.js").Points} Points */
/** @typedef {import("./kinds.js").Schema} Schema */
/** @typedef {import("./wire.js").Message} Message */
/** @typedef {{ deviceId: string, k: number | "auto", least: number, ids: Int32Array | null, seed: number }} How */
/** What Algorithm 1 found; it stays here. @typedef {{ labels: Int32Array, centers: Points, counts: Float64Array, observed: Float64Array | null, withheld: boolean[], message: Message }} Found */
/** @typedef {(words: string, share: number) => void} Tell */

/** Cluster rows of plain numbers. @param {Points} rows @param {string[] | null} names @param {How} how @param {Tell} tell @returns {Found} */
export function clusterNumbers(rows, names, how, tell) {
  const { solution, facts } = clustered(rows, how, tell, true);
  const sent = sentOf(facts.withheld);
  const message = {
    deviceId: how.deviceId,
    centers: taken(solution.centers, sent),
    counts: sent.map((r) => facts.counts[r]),
    squares: facts.sent && sent.map((r) => /** @type {Float64Array} */ (facts.sent)[r]),
    deviation: facts.deviation,
    names,
    schema: null,
    details: null,
  };
  return { ...solution, counts: facts.counts, observed: null, withheld: facts.withheld, message };
}

/** Cluster the columns of a table. @param {Points} values NaN where a cell is missing @param {Schema} schema @param {How} how @param {Tell} tell @returns {Found} */
export function clusterColumns(values, schema, how, tell) {
  const { n, d } = values,
    { shift, scale } = ownScale(values, schema);
  const cells = points(
    n,
    d,
    values.data.map((x, i) => (x - shift[i % d]) / scale[i % d]),
  );
  const counted = [...countedRows(values, schema).entries()].filter(([, is]) => is).map(([row]) => row);
  const filled = points(
      n,
      d,
      cells.data.map((x) => x || 0),
    ),
    isComplete = !cells.data.some(Number.isNaN);
  const ids = how.ids && Int32Array.from(counted, (row) => /** @type {Int32Array} */ (how.ids)[row]);
  const { solution, facts: own } = clustered(
    counted.length === n ? filled : taken(filled, counted),
    { ...how, ids },
    tell,
    false,
  );
  const labels =
    isComplete && counted.length === n ? solution.labels : completed(cells, counted, solution.centers, solution.labels);
  const { sums, withheld, facts } = columnFacts(values, cells, counted, labels, own.withheld, schema, how.least, how.ids);
  const sent = sentOf(withheld),
    told = (/** @type {Float64Array} */ of) =>
      points(
        withheld.length,
        d,
        of.map((x, i) => (facts.hidden[i] ? 0 : x)),
      );
  const observed = taken(told(facts.observed), sent),
    squares = taken(told(facts.squares), sent);
  const message = {
    deviceId: how.deviceId,
    centers: taken(told(facts.means), sent),
    counts: sent.map((r) => sums.counts[r]),
    squares: sent.map((_, r) => squares.data.subarray(r * d, (r + 1) * d).reduce((a, b) => a + b, 0)),
    deviation: null,
    names: null,
    schema,
    details: { observed, squares, leftOut: facts.leftOut },
  };
  return { labels, centers: sums.means, counts: sums.counts, observed: facts.observed, withheld, message };
}

/** @type {(rows: Points, how: How, tell: Tell, deviates: boolean) => { solution: import("./algorithm1.js").Solution, facts: import("./withholding.js").Facts }} */
function clustered(rows, how, tell, deviates) {
  const key = deviceKey(how.seed, how.deviceId),
    large = isLarge(rows, how.k);
  tell("Finding how many groups there are", 0.05);
  const k =
    how.k === "auto"
      ? chooseLocalK(rows, key, large, (share) => tell("Finding how many groups there are", 0.05 + 0.5 * share))
      : how.k;
  tell("Grouping the rows", 0.6);
  const solution = localKmeans(rows, k, key, large, (steps) => tell("Grouping the rows", 1 - 0.4 * 0.97 ** steps));
  return { solution, facts: measure(rows, solution, how.least, how.ids, deviates) };
}

/** @type {(withheld: boolean[]) => number[]} */
const sentOf = (withheld) => [...withheld.keys()].filter((r) => !withheld[r]);
