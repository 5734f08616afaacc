// Greedy k-means++ seeding, draws by a tree of sums, and lightweight coresets, as kfed/_base/seeding.py.

import { points, squaredDistance, taken, zeros } from "./points.js";
import { uniforms } from "./random.js";

/** @typedef {import("./points.js").Points} Points */
/** @typedef {{ rows: Points, weights: Float64Array }} Weighted */

export const CORESET_SIZE = 2 ** 15;
const SAMPLING = 0x5851f42d4c957f2dn;

/** @type {(k: number) => number} */
const nCandidates = (k) => 2 + Math.floor(Math.log(k));

/** Random numbers that `greedySeeds` uses. @type {(k: number, tries: number) => number} */
export const nDraws = (k, tries) => tries * (1 + (k - 1) * nCandidates(k));

/** One number in each of m equal parts of [0, 1). @param {Float64Array} numbers */
export const stratified = (numbers) => numbers.map((number, i) => (i + number) / numbers.length);

/** Indices drawn in proportion to `mass`, one for each of `numbers`. @param {Float64Array} mass @param {Float64Array} numbers */
export function draw(mass, numbers) {
  const size = 1 << (32 - Math.clz32(mass.length - 1));
  const tree = zeros(2 * size); // node i has the children 2i and 2i + 1; the leaves begin at `size`
  tree.set(mass, size);
  for (let i = size - 1; i > 0; i--) tree[i] = tree[2 * i] + tree[2 * i + 1];
  return Array.from(numbers, (number) => {
    let left = number * tree[1],
      node = 1;
    while (node < size) {
      node *= 2;
      if (left >= tree[node]) left -= tree[node++];
    }
    return tree[node] > 0 ? node - size : mass.indexOf(mass.reduce((a, b) => Math.max(a, b)));
  });
}

/** Seeds of several tries, as indices of points. @param {Weighted} sample @param {number} k @param {number} tries @param {Float64Array} numbers */
export function greedySeeds(sample, k, tries, numbers) {
  const firsts = draw(sample.weights, stratified(numbers.slice(0, tries))),
    width = nCandidates(k);
  const own = (/** @type {number} */ t, /** @type {number} */ step) => {
    const from = tries + (step * tries + t) * width;
    return numbers.subarray(from, from + width);
  };
  return firsts.map((first, t) => grown(sample, k, first, (step) => own(t, step)));
}

/** Grow seeds from the first: each next one is the best of a few candidates, drawn by their squared distances to the seeds.
 * @type {(sample: Weighted, k: number, first: number, numbers: (step: number) => Float64Array) => number[]} */
function grown({ rows, weights }, k, first, numbers) {
  const picks = [first],
    mass = zeros(rows.n),
    origin = zeros(rows.n).fill(Infinity);
  let costs = zeros(rows.n),
    trial = zeros(rows.n),
    best = zeros(rows.n);
  withSeed(rows, weights, origin, first, costs);
  for (let step = 0; step < k - 1; step++) {
    for (let i = 0; i < rows.n; i++) mass[i] = costs[i] * weights[i];
    let least = Infinity,
      pick = -1;
    for (const candidate of draw(mass, numbers(step))) {
      const potential = withSeed(rows, weights, costs, candidate, trial);
      if (potential < least || pick < 0) {
        [least, pick] = [potential, candidate];
        [best, trial] = [trial, best];
      }
    }
    picks.push(pick);
    [costs, best] = [best, costs];
  }
  return picks;
}

/** Costs of all points with one more seed, in `out`, and their sum. A squared distance that exceeds the cost is not summed to its end.
 * @type {(rows: Points, weights: Float64Array, costs: Float64Array, seed: number, out: Float64Array) => number} */
function withSeed({ n, d, data: x }, weights, costs, seed, out) {
  let potential = 0;
  for (let i = 0, p = 0; i < n; i++) {
    const cost = costs[i],
      to = (p = i * d) + d;
    let square = 0;
    for (let q = seed * d; p < to && square < cost; p++, q++) square += (x[p] - x[q]) * (x[p] - x[q]);
    potential += (out[i] = square < cost ? square : cost) * weights[i];
  }
  return potential;
}

/** Points to seed from: all of them, or a sample that stands for a large table. @param {Points} rows centered @param {bigint} key @param {number} [size] @returns {Weighted} */
export function coreset(rows, key, size = CORESET_SIZE) {
  const n = rows.n;
  if (n <= size) return { rows, weights: zeros(n).fill(1) };
  const cost = zeros(n),
    origin = points(1, rows.d);
  let total = 0;
  for (let i = 0; i < n; i++) total += cost[i] = squaredDistance(rows, i, origin, 0);
  const chance = cost.map((own) => 1 / n + own / Math.max(total, 2 ** -1022));
  const cumulative = zeros(n);
  for (let i = 0, sum = 0; i < n; i++) cumulative[i] = sum += chance[i];
  const picks = new Uint32Array(size);
  stratified(uniforms(key ^ SAMPLING, size)).forEach((mark, i) => {
    // marks rise, and so do the rows
    let row = i ? picks[i - 1] : 0;
    while (row < n - 1 && cumulative[row] <= mark * cumulative[n - 1]) row++;
    picks[i] = row;
  });
  return { rows: taken(rows, picks), weights: Float64Array.from(picks, (row) => 2 / size / chance[row]) };
}
