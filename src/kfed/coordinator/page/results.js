// Numbers of clusters side by side, and what the clusters are.

import { act, working } from "/assets/admin.js";
import { ask, at, isAdmin } from "/assets/api.js";
import { colour, drawComparison } from "/assets/charts.js";
import { count, get, made, plural } from "/assets/dom.js";

// How many -----------------------------------------------------------------------------------------------------------

let comparing = "";

/** Draw the comparison again if devices or clusters are others than before. */
export async function renderComparison(state, again = false) {
  const key = JSON.stringify([state.name, isAdmin(), state.n_devices, state.n_centers, state.version]);
  if (!again && key === comparing && get("compare").childElementCount) return;
  comparing = key;
  const isEverybodyThere = state.state === "aggregated" || state.closed || (state.quorum && state.n_devices >= state.quorum);
  const tools = isAdmin() && state.n_centers > 2 ? compareForm(state) : null;
  if ((!isEverybodyThere && !again) || state.n_centers < 3) {
    const words = state.n_centers < 3 ? "Numbers of clusters are compared when devices have sent at least three centers." : "Numbers of clusters are compared when everybody has joined.";
    return get("compare").replaceChildren(made("p", { class: "quiet" }, words), tools ?? "");
  }
  if (!get("compare").childElementCount) get("compare").replaceChildren(made("p", { class: "quiet" }, "Comparing numbers of clusters …"));
  try {
    const found = await ask("GET", at(state.name, "comparison"));
    if (comparing === key) show(state, found, tools);
  } catch (error) {
    if (comparing === key) get("compare").replaceChildren(made("p", { class: "quiet" }, error.message), tools ?? "");
  }
}

function compareForm(state) {
  const first = made("input", { id: "compare-first", type: "number", min: 1, max: 200, value: 2, required: true });
  const last = made("input", { id: "compare-last", type: "number", min: 1, max: 200, value: Math.max(12, state.n_clusters_found ?? 0), required: true });
  const work = async (event) => {
    event.preventDefault();
    const which = { first: Number(first.value), last: Number(last.value) };
    await act(() => ask("POST", at(state.name, "comparison"), which), "Compared.");
    renderComparison(state, true);
  };
  return made("form", { class: "row", submit: work }, made("label", { for: "compare-first" }, "Compare"), first,
    made("label", { for: "compare-last" }, "to"), last, made("button", { class: "small plain" }, "Compare"));
}

function show(state, found, tools) {
  if (tools) {
    tools.querySelector("#compare-first").value = found.n_clusters[0];
    tools.querySelector("#compare-last").value = Math.max(found.n_clusters.at(-1), 12);
  }
  const chart = made("div", { class: "chart" }), hadFocus = get("compare").contains(document.activeElement);
  get("compare").replaceChildren(made("p", { class: found.certainty === "reliable" ? "good" : "open" }, `${concluded(state, found).replace(/^no /, "No ")}.${among(state, found)}${inUse(state, found)}`),
    chart, comparisonTable(state, found), made("details", {}, made("summary", {}, "How to read this"), made("ul", {}, ...found.notes.map((text) => made("li", {}, `${text[0].toUpperCase()}${text.slice(1)}.`)))), tools ?? "");
  drawComparison(chart, found, state.n_clusters_found);
  if (hadFocus) get("compare").querySelector("[role=region]").focus();
}

// A notice at the top of the page says the same in full.
const isSaid = (state, text) => state.notices.some((notice) => notice.text === text);

function concluded(state, found) {
  return isSaid(state, found.conclusion) ? found.conclusion.split(": ")[0] : found.conclusion;
}

// Devices may have come or gone since numbers were compared.
function among(state, found) {
  return found.n_devices === state.n_devices ? "" : ` This is of the ${plural(found.n_devices, "device")} that had joined by then.`;
}

// The number in use, where it is another one than the comparison names.
function inUse(state, found) {
  const k = state.n_clusters_found;
  if (k === null || k === found.best) return "";
  const why = state.reason && !isSaid(state, state.reason) ? ` (${state.reason})` : "";
  return ` ${plural(k, "cluster")} ${k === 1 ? "is" : "are"} in use${why}${found.n_clusters.includes(k) ? "" : "; not compared here"}.`;
}

// All digits before the point: a rounded 29,640 would look exact.
function inFull(value) {
  if (value === null) return "–";
  return value.toLocaleString("en", Math.abs(value) >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 });
}

function comparisonTable(state, found) {
  const heads = ["k", ...(isAdmin() ? ["Use"] : []), "Stability", "Weakest", "Silhouette", "Of one cloud", "C-H", "Explained", "Cost"];  // on a phone the last ones scroll
  const digits = (value) => (value === null ? "–" : value.toFixed(2));
  const rows = found.n_clusters.map((k, i) => {
    const [mean, low, high] = found.stability[i];
    const cells = [mean === null ? "–" : `${digits(mean)} (${digits(low)}–${digits(high)})`, digits(found.weakest[i]), digits(found.silhouettes[i]),
      digits(found.silhouettes_of_one_cloud[i]), inFull(found.calinski_harabasz[i]), `${(100 * found.explained[i]).toFixed(1)} %`, inFull(found.costs[i])];
    const name = made("th", { scope: "row" }, String(k), k === found.recommended ? made("span", { class: "late" }, "stands out") : null);
    const choose = isAdmin() ? made("td", { class: "number" }, chooseButton(state, k)) : null;
    return made("tr", k === state.n_clusters_found ? { class: "chosen" } : {}, name, choose, ...cells.map((text) => made("td", { class: "number" }, text)));
  });
  const head = made("tr", {}, ...heads.map((text, i) => made("th", { scope: "col", ...(i ? { class: "number" } : {}) }, text)));
  return made("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Comparison" }, made("table", {}, made("thead", {}, head), made("tbody", {}, ...rows)));
}

function chooseButton(state, k) {
  if (k === state.n_clusters_found) return made("span", { class: "quiet" }, "in use");
  const work = ({ currentTarget: button }) => working(button, () =>  // the event that follows draws the table anew
    act(() => ask("POST", at(state.name, "aggregate"), { n_clusters: k }), `Aggregated in ${plural(k, "cluster")}.`));
  return made("button", { type: "button", class: "small plain", "aria-label": `Use ${k} clusters`, click: work }, `Use ${k}`);
}

// What they are --------------------------------------------------------------------------------------------------------

let shown = "";

export async function renderResult(state) {
  const isThere = isAdmin() && state.state === "aggregated";
  get("result-card").hidden = !isThere;
  if (!isThere) { shown = ""; return get("result").replaceChildren(); }
  const key = JSON.stringify([state.name, state.version, state.last_change.endsWith("renamed") ? state.changed_at : 0]);
  if (key === shown) return;
  shown = key;
  try {
    const found = await ask("GET", at(state.name, "result"));
    if (key !== shown) return;
    const hadFocus = get("result").contains(document.activeElement);
    get("result").replaceChildren(namesForm(state, found), ...unsaid(state, found.sections).flatMap(section));
    if (hadFocus) get("result").querySelector("summary").focus();
  } catch (error) {
    if (key === shown) get("result").replaceChildren(made("p", { class: "quiet" }, error.message));
    shown = "";
  }
}

function namesForm(state, found) {
  const fields = found.cluster_sizes.map((size, cluster) => {
    const dot = made("i", { class: "dot-of", "aria-hidden": "true" });
    dot.style.setProperty("background", colour(cluster));
    const input = made("input", { id: `name-${cluster}`, maxlength: 60, autocomplete: "off", value: found.names[cluster] ?? "", placeholder: `cluster ${cluster}` });
    return made("div", { class: "named" }, dot, made("label", { for: `name-${cluster}` }, `${cluster}`, made("span", { class: "quiet" }, ` ${count.format(Math.round(size))} rows`)), input);
  });
  const work = async (event) => {
    event.preventDefault();
    const names = Object.fromEntries(found.cluster_sizes.map((_, cluster) => [cluster, get(`name-${cluster}`).value.trim()])
      .filter(([cluster, name]) => name !== (found.names[cluster] ?? "")));
    await act(() => ask("PUT", at(state.name, "cluster-names"), { names }), "The names are saved.");
  };
  return made("details", { class: "names" }, made("summary", {}, "Name the clusters"),
    made("form", { submit: work }, made("div", { class: "named-all" }, ...fields), made("button", { class: "small" }, "Save names")));
}

// Sections without the notes that are notices at the top of the page.
function unsaid(state, sections) {
  const isNew = (one) => one.kind !== "notes" || one.texts.length > 0;
  const rest = (one) => (one.kind === "notes" ? { ...one, texts: one.texts.filter((text) => !isSaid(state, text)) } : one);
  return sections.map((part) => ({ ...part, blocks: part.blocks.map(rest).filter(isNew) })).filter((part) => part.blocks.length);
}

// The first sections are about all clusters; those about a single one are opened by who wants to read them.
function section(part) {
  const blocks = part.blocks.map(block);
  if (!part.title) return blocks;
  if (/^Cluster \d+(,|$)/.test(part.title)) return [made("details", {}, made("summary", {}, part.title), ...blocks)];
  return [made("h3", {}, part.title), ...blocks];
}

function block(one) {
  if (one.kind === "paragraph") return made("p", {}, one.text);
  if (one.kind === "notes") return made("ul", { class: "notes" }, ...one.texts.map((text) => made("li", {}, `${text[0].toUpperCase()}${text.slice(1)}`)));
  if (one.kind === "pictures") return pictures(one);
  if (one.kind === "table") return table(one);
  return made("p", {}, made("strong", {}, one.text));
}

function table(one) {
  const rows = one.rows.map((row, i) => made("tr", {}, ...row.map((text, j) => {
    const node = made(j ? "td" : "th", { ...(j ? {} : { scope: "row" }), ...(j >= one.n_words ? { class: "number" } : {}) }, text);
    const heat = one.heats[i]?.[j - one.n_words] ?? 0, alpha = 0.65 * Math.min(1, Math.abs(heat));
    if (j >= one.n_words && alpha > 0.02) node.style.setProperty("background", `rgba(${heat > 0 ? "209,96,61" : "47,110,170"},${alpha.toFixed(2)})`);
    return node;
  })));
  const head = made("tr", {}, ...one.headings.map((text, j) => made("th", { scope: "col", ...(j >= one.n_words ? { class: "number" } : {}) }, text)));
  const inner = made("table", {}, one.headings.some(Boolean) ? made("thead", {}, head) : null, made("tbody", {}, ...rows));
  return made("div", {}, made("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": one.headings.join(", ") }, inner), one.caption ? made("p", { class: "quiet" }, one.caption) : null);
}

function pictures(one) {
  return made("div", {}, made("div", { class: "pictures" }, ...one.pictures.map(({ title, pixels }) => {
    const canvas = made("canvas", { width: pixels[0].length, height: pixels.length, role: "img", "aria-label": title });
    const drawn = canvas.getContext("2d"), image = drawn.createImageData(pixels[0].length, pixels.length);
    pixels.flat().forEach((grey, i) => image.data.set([grey, grey, grey, 255], 4 * i));
    drawn.putImageData(image, 0, 0);
    return made("figure", {}, canvas, made("figcaption", { class: "quiet" }, title));
  })), one.caption ? made("p", { class: "quiet" }, one.caption) : null);
}
