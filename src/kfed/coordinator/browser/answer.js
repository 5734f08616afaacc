// What the coordinator's answer means for the rows here: the cluster of each, and what the clusters are.

import { points, range, squaredDistance } from "./points.js";
import { fail, featuresOf } from "./words.js";

/** @typedef {import("./wire.js").Identity} Identity */
/** @typedef {import("./kinds.js").Schema} Schema */
/** @typedef {import("./kinds.js").Agreed} Agreed */
/** @typedef {import("./points.js").Points} Points */
/** `apart`: how many standard deviations a cluster is from the mean of all, if that is known. @typedef {{ features: { name: string, kind: string }[], values: number[][], apart: number[][] | null }} Profile */

/** The global cluster of every local one: as the answer says, and the nearest for those that were not sent. Of a cluster that the
 * answer does not show, since too few sites are behind it, the centers that were sent from here stand for its center.
 * @param {import("./device.js").Found} found @param {Schema | null} schema @param {Identity} identity */
export function globalClusters(found, schema, identity) {
  const sent = range(found.withheld.length).filter((r) => !found.withheld[r]),
    { clusterIds } = identity;
  if (clusterIds.length !== sent.length)
    fail(`the answer is about ${clusterIds.length} groups, and ${sent.length} were sent: it answers another message`);
  const known = found.centers.data.map((x, i) => (found.observed && !found.observed[i] ? NaN : x));
  const own = scaled(aligned(points(found.centers.n, found.centers.d, known), schema, identity.schema), identity),
    centers = scaled(identity.centers, identity),
    d = centers.d;
  const isKnown = range(centers.n).map((c) => {
    const held = sent.filter((_, i) => clusterIds[i] === c),
      isShown = !Number.isNaN(identity.centers.data[c * d]);
    if (!isShown)
      for (let f = 0; f < d; f++) centers.data[c * d + f] = held.reduce((sum, r) => sum + own.data[r * d + f] / held.length, 0);
    return isShown || held.length > 0;
  });
  return Int32Array.from(found.withheld, (gone, r) => (gone ? nearestOf(own, r, centers, isKnown) : clusterIds[sent.indexOf(r)]));
}

/** @type {(own: Points, r: number, centers: Points, isKnown: boolean[]) => number} */
function nearestOf(own, r, centers, isKnown) {
  if (!isKnown.includes(true))
    fail("no center was sent from here, and the answer shows none, since too few sites are behind each cluster");
  const distances = isKnown.map((is, c) => (is ? squaredDistance(own, r, centers, c) : Infinity));
  return distances.indexOf(Math.min(...distances));
}

/** Values in the order of the answer's features; a level that is not known here is 0. @type {(values: Points, own: Schema | null, other: Schema | null) => Points} */
function aligned(values, own, other) {
  if (!own || !other) return values;
  const [ours, theirs] = [own, other].map((schema) => schema.columns.flatMap(featuresOf));
  const out = points(values.n, theirs.length);
  for (let r = 0; r < values.n; r++)
    theirs.forEach((name, f) => {
      if (ours.includes(name)) out.data[r * out.d + f] = values.data[r * values.d + ours.indexOf(name)];
    });
  return out;
}

/** On the scale on which clusters are compared; what is not known is at the mean of all. @type {(values: Points, identity: Identity) => Points} */
function scaled(values, { shift, scale }) {
  return points(
    values.n,
    values.d,
    values.data.map((x, i) => (shift && scale ? (x - shift[i % values.d]) / scale[i % values.d] : x) || 0),
  );
}

/** What the clusters are, in the units of the tables. @param {Identity} identity @param {string[] | null} names @param {Agreed} agreed @returns {Profile} */
export function profileOf(identity, names, agreed) {
  const { centers, schema, shift, scale } = identity,
    d = centers.d,
    rows = range(centers.n);
  const features = schema
    ? schema.columns.flatMap((column) => featuresOf(column).map((name) => ({ name, kind: column.kind })))
    : range(d).map((f) => ({ name: names?.[f] ?? `feature ${f}`, kind: "number" }));
  const units = features.map(({ name }) => agreed?.get(name) ?? { shift: 0, scale: 1 });
  const each = (/** @type {(x: number, f: number) => number} */ make) =>
    rows.map((r) => features.map((_, f) => make(centers.data[r * d + f], f)));
  const apart = agreed ? each((x) => x) : shift && scale ? each((x, f) => (x - shift[f]) / scale[f]) : null;
  return { features, values: each((x, f) => x * units[f].scale + units[f].shift), apart };
}
