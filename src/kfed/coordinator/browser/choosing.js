// How many clusters the points of a device show without two of them being one, as kfed/device/choosing.py.

import { N_TRIES, cheapestTry, nearest } from "./algorithm1.js";
import { EPS, eigen, mean, points, products, range, squaredDistance, taken, totals, zeros } from "./points.js";
import { nStarted, project } from "./projection.js";
import { uniforms } from "./random.js";
import { CORESET_SIZE, coreset, nDraws } from "./seeding.js";

/** @typedef {import("./points.js").Points} Points */
/** @typedef {import("./seeding.js").Weighted} Weighted */
/** @typedef {{ sizes: Float64Array, means: Points, scatters: Float64Array[] }} SignalClusters */

const MAX_CLUSTERS = 64,
  EACH_UP_TO = 16,
  POINTS_PER_CLUSTER = 5,
  APART = 4,
  CAUTION = 8,
  BORROWED = 10,
  TOO_EVEN = -2.75;

/** @param {Points} rows @param {bigint} key @param {boolean} large @param {(share: number) => void} tell @returns {number} */
export function chooseLocalK(rows, key, large, tell) {
  const isSampled = rows.n > CORESET_SIZE;
  if (isSampled) rows = taken(rows, range(CORESET_SIZE).map((i) => Math.floor((i * rows.n) / CORESET_SIZE)));
  const most = Math.min(MAX_CLUSTERS, Math.max(1, Math.floor(rows.n / POINTS_PER_CLUSTER)));
  if (most === 1) return 1;
  const { coordinates, variances } = principal(rows, EACH_UP_TO, key, large);
  const wide = nAboveNoise(rows, variances, most - 1);
  if (wide === 0) return 1;
  const signal = points(rows.n, wide);
  for (let i = 0; i < signal.data.length; i++)
    signal.data[i] = coordinates.data[Math.floor(i / wide) * coordinates.d + (i % wide)];
  // Python looks at 32,768 points of a larger table: an eighth of them tells the number as well.
  const sample = coreset(signal, key, isSampled ? CORESET_SIZE / 8 : rows.n),
    total = sample.weights.reduce((a, b) => a + b);
  sample.weights.forEach((weight, i) => (sample.weights[i] = (weight * rows.n) / total));
  const k = mostApart(sample, most, key, isSampled, tell);
  return k === 1 && isTooEven(signal) ? most : k; // one center would hide clusters that cannot be told: a fine summary does not
}

/** Points along the directions in which they spread most, the widest first. @type {(rows: Points, most: number, key: bigint, large: boolean) => { coordinates: Points, variances: number[] }} */
function principal(rows, most, key, large) {
  const coordinates = project(rows, most + 1, uniforms(key, nStarted(most + 1)), large);
  const { values, vectors } = eigen(totals(coordinates, coordinates));
  return {
    coordinates: products(coordinates, taken(vectors, range(vectors.n).reverse())),
    variances: Array.from(values, (value) => value / rows.n).reverse(),
  };
}

/** Directions that spread wider than noise does, by the edge of Marchenko and Pastur. @type {(rows: Points, variances: number[], most: number) => number} */
function nAboveNoise(rows, variances, most) {
  const n = rows.n,
    middle = points(1, rows.d, mean(rows));
  let left = 0,
    found = 0;
  for (let i = 0; i < n; i++) left += squaredDistance(rows, i, middle, 0) / n;
  variances.forEach((variance, before) => {
    left -= variance;
    const nLeft = rows.d - before,
      noise = nLeft > 1 ? Math.max(left, 0) / Math.max(nLeft - 1, 1) : 0;
    const edge = noise * (1 + Math.sqrt(nLeft / n)) ** 2 * (1 + 4 * n ** (-2 / 3));
    if (variance > Math.max(edge, 64 * EPS * variances[0]) && before < most) found = before + 1;
  });
  return found;
}

/** @type {(sample: Weighted, most: number, key: bigint, isSampled: boolean, tell: (share: number) => void) => number} */
function mostApart(sample, most, key, isSampled, tell) {
  const { rows } = sample,
    origin = points(1, rows.d);
  let largest = 0,
    chosen = 1;
  for (let i = 0; i < rows.n; i++) largest = Math.max(largest, squaredDistance(rows, i, origin, 0));
  const rounding = (64 * EPS) ** 2 * largest;
  const at = (/** @type {number} */ k, tries = N_TRIES) =>
    clustersAt(sample, cheapestTry(sample, k, uniforms(key, nDraws(k, tries)), 10, tries));
  for (let k = 2; k <= Math.min(most, EACH_UP_TO); k++) {
    tell(k / (EACH_UP_TO + 8));
    const found = at(k);
    if (!found.sizes.includes(0) && leastApart(found, rounding).share >= 1) chosen = k;
  }
  const many = [64, 32].find((start) => most >= start);
  const left = many ? nLeftApart(at(many, isSampled ? 1 : N_TRIES), rounding) : 0;
  return left > EACH_UP_TO ? left : chosen;
}

/** @type {(sample: Weighted, centers: Points) => SignalClusters} */
function clustersAt({ rows, weights }, centers) {
  const { labels } = nearest(rows, centers),
    k = centers.n,
    m = rows.d,
    sizes = zeros(k),
    means = points(k, m);
  const scatters = range(k).map(() => zeros(m * m)),
    line = zeros(m);
  labels.forEach((label, i) => {
    sizes[label] += weights[i];
    for (let f = 0; f < m; f++) means.data[label * m + f] += weights[i] * rows.data[i * m + f];
  });
  means.data.forEach((sum, i) => (means.data[i] = sum / Math.max(sizes[Math.floor(i / m)], 1e-300)));
  labels.forEach((label, i) => {
    for (let f = 0; f < m; f++) line[f] = rows.data[i * m + f] - means.data[label * m + f];
    for (let f = 0; f < m; f++) for (let g = 0; g < m; g++) scatters[label][f * m + g] += weights[i] * line[f] * line[g];
  });
  return { sizes, means, scatters };
}


/** The two clusters that are least apart, and the squared gap between them over what is asked of it. @type {(clusters: SignalClusters, rounding: number) => { share: number, one: number, other: number }} */
function leastApart({ sizes, means, scatters }, rounding) {
  const m = means.d,
    every = zeros(m * m),
    there = [...sizes.keys()].filter((r) => sizes[r] > 0);
  scatters.forEach((scatter) => scatter.forEach((x, i) => (every[i] += x)));
  const borrowed = BORROWED / Math.max(sizes.reduce((a, b) => a + b) - there.length, 1),
    line = zeros(m);
  let least = { share: Infinity, one: 0, other: 0 };
  for (const one of there)
    for (const other of there) {
      if (one >= other) continue;
      for (let f = 0; f < m; f++) line[f] = means.data[one * m + f] - means.data[other * m + f];
      const gap = squaredDistance(means, one, means, other),
        n = sizes[one] + sizes[other];
      const [a, b] = [scatters[one], scatters[other]];
      let along = 0;
      for (let f = 0, i = 0; f < m; f++)
        for (let g = 0; g < m; g++, i++) along += line[f] * line[g] * (a[i] + b[i] + every[i] * borrowed);
      const asked = ((APART * (1 + CAUTION / Math.max(n, 1))) ** 2 * along) / (Math.max(n - 2, 0) + BORROWED);
      const share = gap > rounding ? gap ** 2 / Math.max(asked, 1e-300) : 0;
      if (share < least.share) least = { share, one, other };
    }
  return least;
}

/** Merge the two clusters that are least apart until all are, and count what is left. @type {(clusters: SignalClusters, rounding: number) => number} */
function nLeftApart(clusters, rounding) {
  const { sizes, means, scatters } = clusters,
    m = means.d;
  for (;;) {
    const { share, one, other } = leastApart(clusters, rounding);
    if (share >= 1) return sizes.filter((size) => size > 0).length;
    const a = sizes[one],
      b = sizes[other];
    const line = range(m).map((f) => means.data[one * m + f] - means.data[other * m + f]);
    for (let f = 0; f < m; f++) {
      for (let g = 0; g < m; g++) scatters[one][f * m + g] += scatters[other][f * m + g] + (line[f] * line[g] * a * b) / (a + b);
      means.data[one * m + f] -= (line[f] * b) / (a + b);
    }
    sizes[one] += b;
    sizes[other] = 0;
    scatters[other].fill(0);
  }
}

/** Whether points fill their region more evenly than one Gaussian does, by Mardia's kurtosis. @param {Points} signal */
function isTooEven({ data, n, d }) {
  const middle = mean(points(n, d, data)),
    variances = zeros(d);
  data.forEach((x, i) => (variances[i % d] += (x - middle[i % d]) ** 2 / n));
  let kurtosis = 0;
  for (let i = 0; i < n; i++)
    kurtosis +=
      range(d).reduce((length, f) => length + (data[i * d + f] - middle[f]) ** 2 / Math.max(variances[f], 1e-300), 0) ** 2 / n;
  const expected = (d * (d + 2) * (n - 1)) / (n + 1),
    error = Math.sqrt((8 * d * (d + 2)) / n) / expected;
  return Math.log(Math.max(kurtosis, 1e-300) / expected) < TOO_EVEN * error;
}
