// Charts as SVG, each with a description in words.

const SVG = "http://www.w3.org/2000/svg";
const N_COLOURS = 12;

export const colour = (cluster) => `var(--c${cluster % N_COLOURS})`;

// A shape for each dozen of clusters: none has the colour and the shape of another, up to 48 of them.
const SHAPES = [
  (r) => `M ${-r} 0 A ${r} ${r} 0 1 0 ${r} 0 A ${r} ${r} 0 1 0 ${-r} 0 Z`,
  (r) => `M ${-r} ${-r} H ${r} V ${r} H ${-r} Z`,
  (r) => `M 0 ${-1.4 * r} L ${1.4 * r} 0 L 0 ${1.4 * r} L ${-1.4 * r} 0 Z`,
  (r) => `M 0 ${-1.3 * r} L ${1.3 * r} ${r} H ${-1.3 * r} Z`,
];
const shape = (cluster, r) => SHAPES[Math.floor((cluster ?? 0) / N_COLOURS) % SHAPES.length](r);

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const short = (value) => (Math.abs(value) >= 10000 ? compact : plain).format(value);

function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "fill" || key === "stroke") made.style.setProperty(key, value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function titled(node, text) {
  const title = document.createElementNS(SVG, "title");
  title.textContent = text;
  node.prepend(title);
  return node;
}

function canvas(place, width, height, words) {
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
  place.replaceChildren(svg);
  return svg;
}

function empty(place, words) {
  const said = document.createElement("p");
  said.className = "empty";
  said.textContent = words;
  place.replaceChildren(said);
}

function scale(values, low, high) {
  const least = Math.min(...values), most = Math.max(...values);
  const middle = (low + high) / 2;
  return (value) => (most === least ? middle : low + ((value - least) / (most - least)) * (high - low));
}

/** Device centers on a plane, coloured by cluster; the clusters' own centers carry their number. Returns how many lie outside. */
export function drawMap(place, picture) {
  if (picture.centers.length === 0) {
    empty(place, "No device has sent a center yet");
    return 0;
  }
  const width = 900, height = 400, pad = 36;
  const found = picture.clusters.length;
  const words = `${picture.centers.length} device centers in two dimensions` +
    (found ? `, in ${found} clusters` : ", not clustered yet");
  const svg = canvas(place, width, height, words);
  const all = [...picture.centers.map((c) => [c.x, c.y]), ...picture.clusters];
  const [toX, toY, nOutside] = plane(all, width, height, pad);
  const late = new Set(picture.devices.filter((device) => device.late).map((device) => device.device_id));
  for (const center of picture.centers) {
    const isWaiting = center.cluster === null;
    const dot = element("path", {
      d: shape(center.cluster, late.has(center.device_id) ? 6.5 : 5), transform: `translate(${toX(center.x)} ${toY(center.y)})`,
      class: isWaiting ? "dot waiting" : "dot", ...(isWaiting ? {} : { fill: colour(center.cluster) }),
    });
    const where = isWaiting ? "" : `, cluster ${center.cluster}${late.has(center.device_id) ? ", came late" : ""}`;
    svg.append(titled(dot, `${center.device_id}${where}`));
  }
  const crosses = picture.clusters.map(([x, y]) => [toX(x), toY(y)]);
  crosses.forEach(([x, y], cluster) => {
    const cross = element("path", { d: "M -6 0 H 6 M 0 -6 V 6", class: "cross", transform: `translate(${x} ${y})` });
    svg.append(titled(cross, `center of ${called(picture, cluster)}`));
  });
  const texts = picture.clusters.map((_, cluster) => label(picture, cluster));
  placed(crosses, texts, width, height).forEach(({ x, y, isFar }, cluster) => {
    const [fromX, fromY] = crosses[cluster];
    if (isFar) svg.append(element("line", { x1: fromX, y1: fromY, x2: x, y2: y - 5, class: "leader" }));
    svg.append(element("text", { x, y, "text-anchor": "middle", class: "number", fill: colour(cluster) }, texts[cluster]));
  });
  return nOutside;
}

const called = (picture, cluster) => (picture.names[cluster] ? `${picture.names[cluster]}, cluster ${cluster}` : `cluster ${cluster}`);

function label(picture, cluster) {
  const name = picture.names[cluster];
  return name ? `${cluster} ${name.length > 16 ? `${name.slice(0, 15)}…` : name}` : String(cluster);
}

/** Where labels go: as near to their place as they can without covering another label or a cross. */
function placed(places, texts, width, height) {
  const taken = places.map(([x, y]) => ({ left: x - 6, right: x + 6, top: y - 6, bottom: y + 6 }));
  const covers = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  return places.map(([x, y], at) => {
    const half = 5 * texts[at].length + 3;
    const box = (cx, cy) => ({ left: cx - half, right: cx + half, top: cy - 14, bottom: cy + 4 });
    for (let ring = 0; ring < 8; ring += 1) {
      for (let turn = 0; turn < 12; turn += 1) {
        const angle = -Math.PI / 2 + (turn % 2 ? 1 : -1) * Math.ceil(turn / 2) * (Math.PI / 6), reach = 17 + 14 * ring;
        const cx = x + (reach + half - 8) * Math.cos(angle), cy = y + 6 + reach * Math.sin(angle), own = box(cx, cy);
        const isInside = own.left >= 0 && own.right <= width && own.top >= 0 && own.bottom <= height;
        if (isInside && !taken.some((other) => covers(own, other))) {
          taken.push(own);
          return { x: cx, y: cy, isFar: ring > 0 };
        }
      }
    }
    return { x, y: y - 12, isFar: false };
  });
}

/** The same scale along both axes, so that distances on the picture are those of the plane. Few strays far outside of all others
 * would leave no room for these: they go to the edge. */
function plane(places, width, height, pad) {
  const limits = [0, 1].map((axis) => {
    const values = places.map((place) => place[axis]).sort((a, b) => a - b), rare = Math.floor(values.length / 50);
    const low = values[rare], high = values.at(-1 - rare), reach = high - low;
    return [Math.max(values[0], low - reach), Math.min(values.at(-1), high + reach)];
  });
  const [middles, spans] = [limits.map(([low, high]) => (low + high) / 2), limits.map(([low, high]) => high - low)];
  const unit = Math.min((width - 2 * pad) / (spans[0] || 1), (height - 2 * pad) / (spans[1] || 1));
  const within = (at, most) => Math.min(Math.max(at, pad / 3), most - pad / 3);
  const toX = (x) => width / 2 + (x - middles[0]) * unit, toY = (y) => height / 2 - (y - middles[1]) * unit;
  const isOutside = ([x, y]) => within(toX(x), width) !== toX(x) || within(toY(y), height) !== toY(y);
  return [(x) => within(toX(x), width), (y) => within(toY(y), height), places.filter(isOutside).length];
}

/** A bar for each cluster. */
export function drawSizes(place, sizes, names = []) {
  if (sizes.length === 0) return empty(place, "No clusters yet");
  const shown = sizes.map((size, cluster) => ({ size, cluster })).slice(0, 40);
  const row = 28, width = 420, left = names.some(Boolean) ? 150 : 30, right = 70, largest = Math.max(...sizes);
  const words = "Points in each cluster: " + shown.map(({ size, cluster }) => `${cluster}: ${short(size)}`).join(", ");
  const svg = canvas(place, width, row * shown.length, words);
  shown.forEach(({ size, cluster }, position) => {
    const y = position * row, full = width - left - right;
    svg.append(
      element("text", { x: left - 10, y: y + 18, "text-anchor": "end", class: "strong" }, label({ names }, cluster)),
      element("rect", { x: left, y: y + 6, width: full, height: 16, rx: 5, class: "track" }),
      element("rect", { x: left, y: y + 6, width: Math.max(4, (full * size) / largest), height: 16, rx: 5, fill: colour(cluster) }),
      element("text", { x: width - right + 10, y: y + 18 }, short(size)),
    );
  });
}

/** How far each pick of the farthest-first traversal was from those before it; a mark at the number of clusters. */
export function drawCurve(place, distances, nClusters) {
  if (distances.length < 2) return empty(place, "At least three device centers are needed");
  const width = 420, height = 230, left = 46, bottom = 34, top = 14;
  const svg = canvas(place, width, height,
    `Farthest-first distances, from ${short(distances[0])} at pick 2 to ${short(distances.at(-1))} at pick ${distances.length + 1}` +
    (nClusters ? `; there are ${nClusters} clusters` : ""));
  const toX = scale([2, distances.length + 1], left, width - 10);
  const toY = scale([0, distances[0]], height - bottom, top);
  svg.append(
    element("line", { x1: left, x2: width - 10, y1: toY(0), y2: toY(0), class: "axis" }),
    element("line", { x1: left, x2: left, y1: top, y2: toY(0), class: "axis" }),
    element("text", { x: left - 8, y: toY(0) + 4, "text-anchor": "end" }, "0"),
    element("text", { x: left - 8, y: top + 6, "text-anchor": "end" }, short(distances[0])),
    element("text", { x: left, y: height - 14, "text-anchor": "middle" }, "2"),
    element("text", { x: width - 10, y: height - 14, "text-anchor": "end" }, `pick ${distances.length + 1}`),
  );
  if (nClusters >= 2 && nClusters <= distances.length + 1) {
    svg.append(
      element("line", { x1: toX(nClusters), x2: toX(nClusters), y1: top, y2: toY(0), class: "mark" }),
      element("text", { x: toX(nClusters) + 6, y: top + 8, class: "strong" }, `k = ${nClusters}`),
    );
  }
  const points = distances.map((distance, position) => `${toX(position + 2)},${toY(distance)}`);
  svg.append(element("polyline", { points: points.join(" "), class: "line" }));
  if (distances.length <= 60) {
    distances.forEach((distance, position) => {
      const dot = element("circle", { cx: toX(position + 2), cy: toY(distance), r: 3.5, fill: "var(--accent)" });
      svg.append(titled(dot, `pick ${position + 2}: ${short(distance)}`));
    });
  }
}

/** Number of devices over time. */
export function drawArrivals(place, arrivals, nDevices) {
  if (arrivals.length < 2) return place.replaceChildren();
  const width = 900, height = 90, bottom = 20, before = nDevices - arrivals.length;
  const first = new Date(arrivals[0] * 1000), last = new Date(arrivals.at(-1) * 1000);
  const time = (date) => date.toLocaleTimeString([], { hour12: false });
  const svg = canvas(place, width, height,
    `${arrivals.length} newest devices, arrived between ${time(first)} and ${time(last)}`);
  const toX = scale(arrivals, 4, width - 4), toY = scale([before, nDevices], height - bottom, 6);
  let path = `M ${toX(arrivals[0])} ${toY(before)}`;
  arrivals.forEach((moment, position) => { path += ` H ${toX(moment)} V ${toY(before + position + 1)}`; });
  svg.append(
    element("path", { d: `${path} V ${height - bottom} H ${toX(arrivals[0])} Z`, class: "area" }),
    element("path", { d: path, class: "line" }),
    element("text", { x: 4, y: height - 4 }, time(first)),
    element("text", { x: width - 4, y: height - 4, "text-anchor": "end" }, time(last)),
  );
}

const NARROW = 560;

/** Stability, with the range of nine in ten resamplings, and silhouettes over the number of clusters; a mark at the number in use,
 * a band at the one that stands out. A narrow place has a narrow picture: shrunk to a phone, a wide one cannot be read. */
export function drawComparison(place, found, inUse) {
  const isNarrow = place.clientWidth > 0 && place.clientWidth < NARROW;
  const width = isNarrow ? 380 : 900, height = 250, left = isNarrow ? 20 : 40, right = isNarrow ? 108 : 150, bottom = 34, top = 12, ks = found.n_clusters;
  if (ks.length < 2) return empty(place, "Two numbers at least are needed for a picture");
  const words = `Stability and silhouette for ${ks[0]} to ${ks.at(-1)} clusters` + (found.recommended ? `; ${found.recommended} stands out` : "; none stands out");
  const svg = canvas(place, width, height, words);
  svg.classList.toggle("narrow", isNarrow);
  const toX = scale([ks[0], ks.at(-1)], left, width - right), toY = scale([0, 1], height - bottom, top);
  const inside = (value) => toY(Math.max(0, Math.min(1, value)));
  const known = ks.map((k, i) => [toX(k), ...found.stability[i]]).filter(([, mean, low, high]) => [mean, low, high].every((one) => one !== null));
  const around = [...known.map(([x, , low]) => [x, inside(low)]), ...known.reverse().map(([x, , , high]) => [x, inside(high)])];
  if (around.length) svg.append(titled(element("polygon", { points: around.map((point) => point.join(",")).join(" "), class: "range" }), "stability in nine of ten resamplings"));
  if (found.recommended) svg.append(element("rect", { x: toX(found.recommended) - 11, y: top, width: 22, height: toY(0) - top, class: "band" }));
  svg.append(
    element("line", { x1: left, x2: width - right, y1: toY(0), y2: toY(0), class: "axis" }),
    element("text", { x: left - 8, y: toY(0) + 4, "text-anchor": "end" }, "0"), element("text", { x: left - 8, y: toY(1) + 6, "text-anchor": "end" }, "1"),
    ...ks.filter((_, i) => ks.length <= (isNarrow ? 12 : 25) || i % 5 === 0).map((k) => element("text", { x: toX(k), y: height - 14, "text-anchor": "middle", class: k === inUse ? "strong" : "" }, k === inUse && !isNarrow ? `k = ${k}` : String(k))),
  );
  if (inUse >= ks[0] && inUse <= ks.at(-1)) svg.append(element("line", { x1: toX(inUse), x2: toX(inUse), y1: top, y2: toY(0), class: "mark" }));
  const lines = [
    ["stability", found.stability.map((row) => row[0]), "line"], ["weakest cluster", found.weakest, "line dotted"],
    ["silhouette", found.silhouettes, "line second"], ["of one cloud", found.silhouettes_of_one_cloud, "line second dotted"],
  ];
  const ends = [];
  for (const [name, values, kind] of lines) {
    const points = values.map((value, i) => (value === null ? null : [toX(ks[i]), inside(value)])).filter(Boolean);
    if (points.length === 0) continue;
    svg.append(element("polyline", { points: points.map((point) => point.join(",")).join(" "), class: kind }));
    let y = points.at(-1)[1] + 4;
    while (ends.some((other) => Math.abs(other - y) < 15)) y += 15;
    if (y > height - bottom + 4) { y = points.at(-1)[1] + 4; while (ends.some((other) => Math.abs(other - y) < 15)) y -= 15; }
    ends.push(y);
    svg.append(element("text", { x: width - right + 12, y, class: kind.includes("second") ? "second" : "first" }, name));
  }
}
