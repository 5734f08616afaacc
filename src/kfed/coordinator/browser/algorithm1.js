// Algorithm 1 of the paper on one device: project, seed, average the core sets, run Lloyd; as kfed/device/algorithm1.py.

import { EPS, points, range, squaredDistance, taken, zeros } from "./points.js";
import { nStarted, project } from "./projection.js";
import { uniforms } from "./random.js";
import { coreset, greedySeeds, nDraws } from "./seeding.js";

/** @typedef {import("./points.js").Points} Points */
/** @typedef {import("./seeding.js").Weighted} Weighted */
/** @typedef {{ labels: Int32Array, centers: Points, settled: boolean }} Solution */

export const N_TRIES = 4;
const FEW_CENTERS = 32;

/** Whether Python would walk this table in blocks, and seed it from a polished sample. @type {(rows: Points, k: number | "auto") => boolean} */
export const isLarge = (rows, k) =>
  8 * rows.data.length > 2 ** 23 || (k !== "auto" && rows.n * k > (k <= FEW_CENTERS ? 2 ** 21 : 2 ** 19));

/** @param {Points} rows @param {number} k @param {bigint} key @param {boolean} large @param {(steps: number) => void} tell @param {number} [maxSteps] @returns {Solution} */
export function localKmeans(rows, k, key, large, tell, maxSteps = 300) {
  const tries = k <= FEW_CENTERS ? N_TRIES : 1,
    started = nStarted(k);
  const numbers = uniforms(key, started + nDraws(k, tries));
  const projected = project(rows, k, numbers.subarray(0, started), large); // step 2
  const seeds = approximateCenters(projected, k, key, numbers.subarray(started), large, tries);
  const centers = coreMeans(rows, projected, seeds); // step 3
  return lloyd({ rows, weights: zeros(rows.n).fill(1) }, centers, maxSteps, tell); // step 4
}

/** @type {(projected: Points, k: number, key: bigint, numbers: Float64Array, large: boolean, tries: number) => Points} */
function approximateCenters(projected, k, key, numbers, large, tries) {
  if (!large) return cheapestTry(coreset(projected, key), k, numbers, 1, tries);
  const few = k <= FEW_CENTERS,
    sample = few ? coreset(projected, key) : coreset(projected, key, 64 * k);
  const start = few ? cheapestTry(sample, k, numbers, 10) : taken(sample.rows, greedySeeds(sample, k, 1, numbers)[0]);
  return lloyd(sample, start, 100).centers;
}

/** Run every try for some Lloyd steps, and give the centers of the cheapest. @param {Weighted} sample @param {number} k @param {Float64Array} numbers @param {number} steps @param {number} [tries] */
export function cheapestTry(sample, k, numbers, steps, tries = N_TRIES) {
  let lowest = Infinity,
    cheapest = points(k, sample.rows.d);
  for (const picks of greedySeeds(sample, k, tries, numbers)) {
    let centers = taken(sample.rows, picks);
    const known = bounds(sample.rows.n, k);
    let labels = known.labels;
    for (let step = 0; step < steps; step++) {
      labels = reassign(sample.rows, centers, labels, known);
      const next = means(sample, labels, centers).centers;
      moves(centers, next, known.moved);
      centers = next;
    }
    const { squares } = nearest(sample.rows, centers);
    let cost = 0;
    for (let i = 0; i < squares.length; i++) cost += squares[i] * sample.weights[i];
    if (cost < lowest) [lowest, cheapest] = [cost, centers];
  }
  return cheapest;
}

/** Means of the original points of the core sets: points at most a third as far from their seed as from any other.
 * @type {(rows: Points, projected: Points, seeds: Points) => Points} */
function coreMeans(rows, projected, seeds) {
  const { labels, squares, seconds } = nearest(projected, seeds);
  const inCore = Float64Array.from(squares, (square, i) => +(9 * square <= seconds[i]));
  const sizes = zeros(seeds.n);
  labels.forEach((label, i) => (sizes[label] += inCore[i]));
  labels.forEach((label, i) => {
    if (sizes[label] === 0) inCore[i] = 1;
  });
  const middle = points(seeds.n, rows.d),
    all = means({ rows, weights: inCore }, new Int32Array(rows.n), points(1, rows.d)).centers;
  for (let r = 0; r < seeds.n; r++) middle.data.set(all.data, r * rows.d);
  return means({ rows, weights: inCore }, labels, middle).centers;
}

/** Assign every point to its nearest center and average, until nothing changes.
 * @param {Weighted} sample @param {Points} centers @param {number} maxSteps @param {(steps: number) => void} [tell] @returns {Solution} */
export function lloyd(sample, centers, maxSteps, tell) {
  const known = bounds(sample.rows.n, centers.n);
  let labels = known.labels;
  let lookedAtAll = true,
    settled = false;
  for (let step = 0; step < maxSteps && !settled; step++) {
    tell?.(step);
    const assigned = reassign(sample.rows, centers, labels, known);
    const sums = means(sample, assigned, centers);
    let next = sums.centers;
    if (sums.sizes.includes(0) && reseatEmpty(sample, centers, assigned)) {
      known.slack.fill(-1);
      next = means(sample, assigned, centers).centers;
    }
    const changed = assigned.some((label, i) => label !== labels[i]);
    settled = !changed && lookedAtAll;
    lookedAtAll = !changed;
    if (lookedAtAll) known.slack.fill(-1);
    moves(centers, next, known.moved);
    [labels, centers] = [assigned, next];
  }
  return { labels, centers, settled };
}

// A point keeps its label while the centers have moved, in sum, less than its slack: how much farther the second nearest
// center is than its own (Hamerly, SDM 2010). Sums are rounded, so the end is a step that looks at every point.
/** @typedef {{ labels: Int32Array, slack: Float64Array, moved: Float64Array }} Bounds */

/** Nothing is known yet. @type {(n: number, k: number) => Bounds} */
const bounds = (n, k) => ({ labels: new Int32Array(n).fill(-1), slack: zeros(n).fill(-1), moved: zeros(k) });

/** @type {(rows: Points, centers: Points, labels: Int32Array, known: Bounds) => Int32Array} */
function reassign(rows, centers, labels, { slack, moved }) {
  const out = labels.slice();
  for (let i = 0; i < rows.n; i++) {
    if (labels[i] >= 0 && (slack[i] -= moved[labels[i]]) > 0) continue;
    out[i] = nearestTo(rows, i, centers, labels[i] < 0 ? 0 : labels[i]);
    slack[i] = Math.sqrt(second) - Math.sqrt(least);
  }
  return out;
}

/** How far each center moved, plus the farthest move of any other. @type {(from: Points, to: Points, moved: Float64Array) => void} */
function moves(from, to, moved) {
  const own = range(from.n).map((r) => Math.sqrt(squaredDistance(from, r, to, r)));
  own.forEach((length, r) => (moved[r] = length + Math.max(0, ...own.filter((_, s) => s !== r))));
}

let least = 0,
  second = 0; // what `nearestTo` found: squared distances to the nearest center and to the next

/** The nearest center of a point, ties to the lowest; `guess` is looked at first, so that the sums of others end early.
 * @type {(rows: Points, i: number, centers: Points, guess: number) => number} */
function nearestTo(rows, i, centers, guess) {
  const x = rows.data,
    d = rows.d,
    c = centers.data,
    from = i * d,
    to = from + d;
  let label = guess,
    first = 0,
    next = Infinity;
  for (let p = from, q = guess * d; p < to; p++, q++) first += (x[p] - c[q]) * (x[p] - c[q]);
  for (let r = 0; r < centers.n; r++) {
    if (r === guess) continue;
    let square = 0;
    for (let p = from, q = r * d; p < to && square < next; p++, q++) square += (x[p] - c[q]) * (x[p] - c[q]);
    if (square < first || (square === first && r < label)) {
      next = first;
      first = square;
      label = r;
    } else if (square < next) next = square;
  }
  least = first;
  second = next;
  return label;
}

/** The nearest center of each point, and the squared distances to it and to the next. @param {Points} rows @param {Points} centers */
export function nearest(rows, centers) {
  const n = rows.n,
    labels = new Int32Array(n),
    squares = zeros(n),
    seconds = zeros(n);
  for (let i = 0; i < n; i++) {
    labels[i] = nearestTo(rows, i, centers, 0);
    squares[i] = least;
    seconds[i] = second;
  }
  return { labels, squares, seconds };
}

/** Means by label, and weights; a cluster without weight keeps its center. @param {Weighted} sample @param {Int32Array} labels @param {Points} otherwise */
export function means({ rows, weights }, labels, otherwise) {
  const { n, d, data } = rows,
    centers = points(otherwise.n, d),
    sums = centers.data,
    sizes = zeros(otherwise.n);
  for (let i = 0; i < n; i++) {
    const weight = weights[i],
      at = labels[i] * d;
    sizes[labels[i]] += weight;
    for (let f = 0, p = i * d; f < d; f++) sums[at + f] += weight * data[p + f];
  }
  for (let i = 0; i < sums.length; i++) {
    const size = sizes[Math.floor(i / d)];
    sums[i] = size > 0 ? sums[i] / size : otherwise.data[i];
  }
  return { centers, sizes };
}

/** Give each empty cluster the point farthest from its own center, in `labels`. @type {(sample: Weighted, centers: Points, labels: Int32Array) => boolean} */
function reseatEmpty({ rows, weights }, centers, labels) {
  const far = Float64Array.from(labels, (label, i) => (weights[i] > 0 ? squaredDistance(rows, i, centers, label) : 0));
  const origin = points(1, rows.d);
  let largest = 0,
    reseated = false;
  for (let r = 0; r < centers.n; r++) largest = Math.max(largest, squaredDistance(centers, r, origin, 0));
  const sizes = zeros(centers.n);
  labels.forEach((label, i) => (sizes[label] += +(weights[i] > 0)));
  for (let r = 0; r < centers.n; r++) {
    if (sizes[r] > 0) continue;
    const point = far.reduce((best, square, i) => (square > far[best] ? i : best), 0);
    if (far[point] > (16 * EPS) ** 2 * largest && sizes[labels[point]] > 1) {
      sizes[labels[point]]--;
      labels[point] = r;
      reseated = true;
    }
    far[point] = 0;
  }
  return reseated;
}
