// Algorithm 1 on the columns of a table: each on its own scale, over the cells that are there; as kfed/device/columns.py.

import { filledSpans, spans } from "./kinds.js";
import { levelled, withCommonLevels } from "./levels.js";
import { points, range, zeros } from "./points.js";
import { haveEnoughIds, haveEnoughRows, sentSums, tolerancesOf } from "./withholding.js";

/** @typedef {import("./points.js").Points} Points */
/** @typedef {import("./kinds.js").Schema} Schema */
/** @typedef {import("./device.js").Found} Found */
/** @typedef {{ observed: Float64Array, means: Points, squares: Float64Array, counts: Float64Array }} CellSums */
/** @typedef {{ observed: Float64Array, means: Float64Array, squares: Float64Array, hidden: boolean[], leftOut: number | null }} ColumnFacts */

const LEAST_OBSERVED = 0.5,
  FAR_CELLS = 3,
  MOST_OF_ONE = 0.5,
  ON_CENTER = 1e-9;

/** Shift and scale of every feature, as these cells show them, unmoved by a few far ones. @param {Points} values @param {Schema} schema */
export function ownScale(values, schema) {
  const shift = zeros(values.d),
    scale = zeros(values.d).fill(1);
  for (const { column, first, last } of spans(schema)) {
    const own = spread(values, first, last, column.kind === "number" || column.kind === "date");
    shift.set(own.means, first);
    scale.fill(own.spread, first, last);
  }
  return { shift, scale };
}

/** @type {(values: Points, first: number, last: number, isNumber: boolean) => { means: number[], spread: number }} */
function spread(values, first, last, isNumber) {
  const means = [];
  let variance = 0;
  for (let f = first; f < last; f++) {
    let known = zeros(values.n),
      n = 0;
    for (let i = 0; i < values.n; i++)
      if (!Number.isNaN(values.data[i * values.d + f])) known[n++] = values.data[i * values.d + f];
    known = known.subarray(0, n);
    if (isNumber && n) {
      const sorted = known.slice().sort(),
        [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(sorted, share));
      const reach = FAR_CELLS * (high - low);
      if (reach > 0) known.forEach((x, i) => (known[i] = Math.min(Math.max(x, middle - reach), middle + reach)));
    }
    const mean = n ? known.reduce((a, b) => a + b, 0) / n : 0;
    means.push(mean);
    variance += n ? known.reduce((sum, x) => sum + (x - mean) ** 2, 0) / n : 0;
  }
  return { means, spread: variance > 0 ? Math.sqrt(variance) : 1 };
}

/** @type {(sorted: Float64Array, share: number) => number} */
function quantile(sorted, share) {
  const at = share * (sorted.length - 1),
    low = Math.floor(at);
  return sorted[low] + (at - low) * (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]);
}

/** Rows with enough filled columns to be counted; all rows, if none qualifies. @param {Points} values @param {Schema} schema */
export function countedRows(values, schema) {
  const { n, d, data } = values,
    there = filledSpans(schema),
    filled = zeros(n).map((_, i) => +(shareFilled(there, (f) => Number.isNaN(data[i * d + f])) >= LEAST_OBSERVED));
  return filled.includes(1) ? filled : filled.fill(1);
}

/** The share of columns without a gap. @type {(there: ReturnType<typeof spans>, isGap: (f: number) => boolean) => number} */
function shareFilled(there, isGap) {
  let nFilled = 0;
  for (let { first, last } of there) {
    while (first < last && !isGap(first)) first++;
    nFilled += +(first === last);
  }
  return nFilled / Math.max(1, there.length);
}

/** Labels of all rows by Lloyd on observed cells, from the clusters of the rows that are counted.
 * @param {Points} cells NaN where a cell is missing @param {number[]} counted @param {Points} start @param {Int32Array} labels of counted rows */
export function completed(cells, counted, start, labels) {
  let centers = start;
  for (let step = 0; step < 300; step++) {
    const sums = tally(cells, counted, labels, start.n),
      before = labels,
      old = centers;
    centers = points(
      start.n,
      start.d,
      sums.means.data.map((x, i) => (sums.observed[i] > 0 ? x : old.data[i])),
    );
    labels = Int32Array.from(counted, (row) => nearestObserved(cells, row, centers));
    if (labels.every((label, i) => label === before[i])) break;
  }
  return Int32Array.from({ length: cells.n }, (_, row) => nearestObserved(cells, row, centers));
}

/** @type {(cells: Points, row: number, centers: Points) => number} */
function nearestObserved({ data, d }, row, centers) {
  let least = Infinity,
    label = 0;
  for (let r = 0; r < centers.n; r++) {
    let apart = 0;
    for (let f = 0; f < d; f++) {
      const x = data[row * d + f],
        c = centers.data[r * d + f];
      if (x === x) apart += c * c - 2 * x * c; // NaN is not itself: a missing cell says nothing
    }
    if (apart < least) {
      least = apart;
      label = r;
    }
  }
  return label;
}

/** Sums over the observed cells of some rows by label. @param {Points} values @param {number[]} rows @param {Int32Array} labels of these rows @param {number} k @returns {CellSums} */
export function tally(values, rows, labels, k) {
  const { d, data } = values,
    observed = zeros(k * d),
    means = points(k, d),
    squares = zeros(k * d),
    counts = zeros(k);
  const each = (/** @type {(at: number, x: number) => void} */ add) =>
    rows.forEach((row, i) => {
      for (let f = 0; f < d; f++) if (data[row * d + f] === data[row * d + f]) add(labels[i] * d + f, data[row * d + f]);
    });
  labels.forEach((label) => counts[label]++);
  each((at, x) => {
    observed[at]++;
    means.data[at] += x;
  });
  means.data.forEach((sum, i) => (means.data[i] = sum / Math.max(observed[i], 1e-300)));
  each((at, x) => {
    squares[at] += (x - means.data[at]) ** 2;
  });
  return { observed, means, squares, counts };
}

/** What may be told of each cell: the floor of decision 0001, cell by cell. @param {Points} values @param {Points} cells on the device's own scale @param {number[]} counted @param {Int32Array} labels of all rows
 * @param {boolean[]} withheld @param {Schema} schema @param {number} least @param {Int32Array | null} ids */
export function columnFacts(values, cells, counted, labels, withheld, schema, least, ids) {
  const k = withheld.length,
    d = values.d,
    own = Int32Array.from(counted, (row) => labels[row]),
    sums = tally(values, counted, own, k);
  const isComplete = !values.data.some(Number.isNaN);
  let behind = isComplete ? sums.observed.map((_, i) => sums.counts[Math.floor(i / d)]) : sums.observed;
  let enough = range(d).map(() => withheld.map(() => true));
  if (!isComplete) {
    const { means } = tally(cells, counted, own, k);
    withheld = tooFew(cells, counted, labels, means, sums.counts, least, ids);
    enough = areEnough(cells, counted, labels, means, least, ids);
    if (ids) {
      const owners = Int32Array.from(counted, (row) => ids[row]),
        many = haveEnoughIds(owners, own, k, least);
      behind = idsBehind(values, counted, own, k, ids);
      withheld = withheld.map((gone, r) => gone || !many[r]);
    }
  }
  const levels = levelled(values, schema),
    told = withCommonLevels(sums, levels, values, counted, own, least, ids);
  const hidden = Array.from(
    behind,
    (n, i) => withheld[Math.floor(i / d)] || !enough[i % d][Math.floor(i / d)] || n < least || told.observed[i] === 0,
  );
  const dominated = isDominated(values, counted, own, schema, k),
    { squares } = told;
  for (let f = 0; f < d; f++) {
    const of = (/** @type {Float64Array} */ all) => Float64Array.from(range(k), (r) => all[r * d + f]);
    const sent = squaresToSend(
        of(squares),
        of(behind),
        range(k).map((r) => !hidden[r * d + f]),
        least,
      ),
      isLevel = levels.some(({ first }) => first === f);
    for (let r = 0; r < k; r++) {
      const at = r * d + f;
      hidden[at] ||= !sent || (dominated[at] && !isLevel);
      squares[at] = sent && !hidden[at] ? sent[r] : 0;
    }
  }
  withheld = withheld.map((gone, r) => gone || shareFilled(filledSpans(schema), (f) => hidden[r * d + f]) < LEAST_OBSERVED);
  const isCounted = new Uint8Array(values.n);
  counted.forEach((row) => (isCounted[row] = 1));
  const left = labels.reduce((n, label, row) => n + +(!isCounted[row] || withheld[label]), 0);
  return {
    sums,
    withheld,
    facts: { observed: told.observed, means: told.means.data, squares, hidden, leftOut: 0 < left && left < least ? null : left },
  };
}

/** Sums of squares of one column as they are sent; where the cells behind what is sent are too few, all cells of the column count.
 * @type {(squares: Float64Array, behind: Float64Array, isSent: boolean[], least: number) => Float64Array | null} */
function squaresToSend(squares, behind, isSent, least) {
  const sum = (/** @type {Float64Array} */ all) => all.reduce((a, b) => a + b, 0),
    freedom = behind.map((n) => Math.max(n - 1, 0));
  const pooled = sum(behind) < 3 * least ? null : freedom.map((own) => (sum(squares) * own) / Math.max(sum(freedom), 1));
  return sentSums(squares, behind, isSent, least) ?? pooled;
}

/** @type {(units: Points, counted: number[], labels: Int32Array, k: number, ids: Int32Array) => Float64Array} */
function idsBehind({ data, d }, counted, labels, k, ids) {
  const found = range(k * d).map(() => new Set());
  counted.forEach((row, i) => {
    for (let f = 0; f < d; f++) if (!Number.isNaN(data[row * d + f])) found[labels[i] * d + f].add(ids[row]);
  });
  return Float64Array.from(found, (own) => own.size);
}

/** Whether the cells of each column and cluster are of enough different rows, or of enough people, none with more than half. @type {(cells: Points, counted: number[], labels: Int32Array, means: Points, least: number, ids: Int32Array | null) => boolean[][]} */
function areEnough(cells, counted, labels, means, least, ids) {
  const { d, data } = cells,
    tolerances = tolerancesOf(cells, counted, means, least),
    nothing = range(means.n).map(() => false);
  const gaps = range(cells.n).map((row) => data.subarray(row * d, (row + 1) * d).filter(Number.isNaN).length),
    order = counted.slice().sort((a, b) => gaps[a] - gaps[b]); // a row of few cells is like many others
  return range(d).map((f) => {
    const rows = order.filter((row) => !Number.isNaN(data[row * d + f])),
      of = (/** @type {Int32Array} */ all) => Int32Array.from(rows, (row) => all[row]);
    return ids
      ? haveEnoughIds(of(ids), of(labels), means.n, least)
      : haveEnoughRows(cells, rows, labels, tolerances, nothing, least);
  });
}

/** Clusters of too few rows, or whose center is a row: fewer than `least` have what it has in the cells that are filled.
 * @type {(cells: Points, counted: number[], labels: Int32Array, means: Points, counts: Float64Array, least: number, ids: Int32Array | null) => boolean[]} */
function tooFew({ d, data }, counted, labels, means, counts, least, ids) {
  return Array.from(counts, (count, r) => {
    const isAt = (/** @type {number} */ row, /** @type {number} */ f) => Math.abs(data[row * d + f] - means.data[r * d + f]) <= ON_CENTER;
    const members = counted.filter((row) => labels[row] === r),
      seen = new Set();
    const tells = (/** @type {number} */ row) => {
      for (let f = 0; f < d; f++) if (!Number.isNaN(data[row * d + f]) && !isAt(row, f)) return false;
      const filled = range(d).filter((f) => !Number.isNaN(data[row * d + f]));
      if (seen.has(filled.join())) return false;
      seen.add(filled.join());
      const alike = members.filter((other) => filled.every((f) => isAt(other, f)));
      return new Set(ids ? alike.map((other) => ids[other]) : alike).size < least;
    };
    return count < least || counted.some(tells);
  });
}

/** Averages of numbers of which a single cell makes up more than half. @type {(units: Points, counted: number[], labels: Int32Array, schema: Schema, k: number) => boolean[]} */
function isDominated({ data, d }, counted, labels, schema, k) {
  const most = zeros(k * d),
    total = zeros(k * d),
    numbers = spans(schema).filter(({ column }) => column.kind === "number");
  counted.forEach((row, i) => {
    for (const { first } of numbers) {
      const size = Math.abs(data[row * d + first] || 0),
        at = labels[i] * d + first;
      most[at] = Math.max(most[at], size);
      total[at] += size;
    }
  });
  return Array.from(most, (largest, i) => largest > MOST_OF_ONE * total[i]);
}
