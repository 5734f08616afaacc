// The live page: listens for changes, and draws the chosen federation.

import { followLink, hasToken, headers, isAdmin, signIn, signOut } from "/assets/api.js";
import { joinCommand, removeButton, renderActions, renderSites, showCreate } from "/assets/admin.js";
import { drawArrivals, drawCurve, drawMap, drawSizes } from "/assets/charts.js";
import { bytes, clock, copyable, count, get, made, plural, put } from "/assets/dom.js";
import { renderComparison, renderResult } from "/assets/results.js";

const PACE = 1000;
const federations = new Map();
let drawn = 0, drawing = false, waiting = false, creating = false, shown = "";

const chosen = () => (federations.has(named()) ? named() : [...federations.keys()][0]);

// The federation that the address names; an address that cannot be decoded names none.
function named() {
  try { return decodeURIComponent(location.hash.replace(/^#\/?/, "")); } catch { return ""; }
}

// Events -----------------------------------------------------------------------------------------------------------

async function listen() {
  for (let pause = 500; ; pause = Math.min(pause * 2, 10000)) {
    try {
      const answer = await fetch("/v1/events", { headers: headers(), cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) return askForToken(hasToken() ? "This token has expired." : "");
      if (answer.ok) {
        pause = 500;
        connected(true);
        await read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
      }
    } catch { /* the coordinator is away: try again */ }
    connected(false);
    await new Promise((resume) => setTimeout(resume, pause));
  }
}

async function read(stream) {
  let text = "";
  for (;;) {
    const { value, done } = await stream.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    let heard = false;
    for (const part of parts) {
      const data = part.split("\n").find((line) => line.startsWith("data: "));
      if (!data) continue;
      const state = JSON.parse(data.slice(6));
      if (part.startsWith("event: gone")) federations.delete(state.name);
      else federations.set(state.name, state);
      heard = true;
    }
    if (heard || federations.size === 0) render();
  }
}

const PATIENCE = 2000;
let leftAt = 0;

/** Show whether the coordinator answers, and since when it does not: what the page shows is as old. */
function connected(isLive) {
  leftAt = isLive ? 0 : leftAt || Date.now();
  get("away").hidden = isLive || Date.now() - leftAt < PATIENCE;
  put("away", get("away").hidden ? "" : `The coordinator has not answered since ${clock(leftAt / 1000)}. This page keeps trying; what it shows may have changed.`);
  get("connection").textContent = isLive ? "live" : "reconnecting";
  get("connection").classList.toggle("live", isLive);
}

// Signing in -------------------------------------------------------------------------------------------------------

let isListening = true;

function askForToken(problem) {
  isListening = false;
  connected(false);
  get("connection").textContent = "token required";
  get("away").hidden = true;
  openSignIn("A token is required", problem || get("sign-in-problem").textContent);
}

function openSignIn(title, problem = "") {
  put("sign-in-title", title);
  get("sign-in-problem").textContent = problem;
  get("sign-in").hidden = false;
  get("sign-in-cancel").hidden = !isListening;
  get("federation").hidden = get("welcome").hidden = get("create").hidden = true;
  get("token").focus();
}

get("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await signIn(get("token").value.trim()).catch(() => null);
  if (answer === null) { get("sign-in-problem").textContent = "The coordinator does not answer; try again."; return; }
  if (!answer.ok) {
    get("sign-in-problem").textContent = answer.status === 429 ? "Too many wrong tokens; wait a minute." : "This is not the admin token.";
    return;
  }
  get("token").value = "";
  get("sign-in").hidden = true;
  if (isListening) render(); else { isListening = true; listen(); }
  get("main").focus();
});

get("sign-in-cancel").addEventListener("click", () => { get("sign-in").hidden = true; render(); });

get("sign-in-or-out").addEventListener("click", () => {
  if (!isAdmin()) return openSignIn("Sign in");
  signOut();
  creating = false;
  get("once").replaceChildren();
  render();
});

// Rendering --------------------------------------------------------------------------------------------------------

function render() {
  renderList();
  get("sign-in-or-out").hidden = false;
  put("sign-in-or-out", isAdmin() ? "Sign out" : "Sign in");
  get("new").hidden = !isAdmin();
  if (!get("sign-in").hidden) return;
  const state = federations.get(chosen());
  get("create").hidden = !creating;
  renderWelcome(federations.size === 0 && !creating);
  get("federation").hidden = !state || creating;
  document.title = state ? `${state.name}: ${state.state} · kfed` : "kfed coordinator";
  if (!state || creating) return;
  renderState(state);
  if (state.state !== "damaged") schedulePicture();
}

function renderWelcome(isShown) {
  get("welcome").hidden = !isShown;
  if (!isShown) return;
  put("welcome-words", isAdmin()
    ? "Create a federation, and invite sites to it. Each of them runs one command, or opens one page."
    : "Sign in with the admin token to create a federation and to invite sites.");
  put("welcome-act", isAdmin() ? "New federation" : "Sign in");
}

get("welcome-act").addEventListener("click", () => (isAdmin() ? create() : openSignIn("Sign in")));
get("new").addEventListener("click", create);

function create() {
  creating = true;
  showCreate((name) => {
    creating = false;
    if (name) location.hash = `#/${encodeURIComponent(name)}`;
    render();
  });
  render();
}

function renderList() {
  get("no-federations").hidden = federations.size > 0;
  const items = [...federations.values()].map((state) => {
    const link = made("a", { href: `#/${encodeURIComponent(state.name)}` },
      made("strong", {}, state.name), made("span", {}, `${state.state} · ${plural(state.n_devices, "device")}`));
    if (state.name === chosen() && !creating) link.setAttribute("aria-current", "page");
    return made("li", {}, link);
  });
  const focused = [...get("federations").querySelectorAll("a")].indexOf(document.activeElement);
  get("federations").replaceChildren(...items);
  if (focused >= 0) get("federations").querySelectorAll("a")[focused]?.focus();
}

function renderState(state) {
  if (shown !== state.name) for (const id of ["once", "done", "problem", "compare", "result", "sites"]) get(id).replaceChildren();
  shown = state.name;
  put("name", state.name);
  put("state", state.state);
  get("state").className = `badge ${state.state}`;
  get("closed").hidden = !state.closed;
  get("rounds").hidden = state.rounds < 2;
  put("rounds", state.round > 1 ? "refined in a second round" : `second messages: ${count.format(state.n_second)} of ${count.format(state.n_aggregated)}`);
  const isDamaged = state.state === "damaged";
  get("federation").classList.toggle("damaged", isDamaged);
  get("remark").hidden = !state.remark;
  put("remark", !state.remark ? "" : isDamaged ? `Damaged, and not served until it is mended: ${state.remark}` : `Not aggregated: ${state.remark}`);
  put("terms", terms(state));
  renderNotices(state.notices);
  put("n-devices", count.format(state.n_devices));
  put("quorum", quorum(state));
  put("n-bytes", bytes(state.n_bytes));
  put("per-device", state.n_devices ? `${bytes(state.n_bytes / state.n_devices)} per device` : "one message per device");
  put("n-centers", count.format(state.n_centers));
  put("n-points", `for ${plural(Math.round(state.n_points), "point")}, which stay on their devices`);
  put("n-clusters", state.n_clusters_found === null ? "–" : count.format(state.n_clusters_found));
  put("version", clustered(state));
  get("last-change").replaceChildren("Last change: ", made("strong", {}, state.last_change), ` (${clock(state.changed_at)})`);
  get("sites-card").classList.toggle("first", state.n_clusters_found === null);
  get("devices-table").hidden = state.n_devices === 0;
  get("no-devices").hidden = state.n_devices > 0;
  if (state.n_devices === 0) get("no-devices").replaceChildren(...nobodyYet(state));
  renderActions(state);
  renderSites(state);
  renderComparison(state);
  renderResult(state);
}

// Drawn again only if they are others than before, so that a screen reader is not interrupted.
let said = "";

function renderNotices(notices) {
  get("notices").hidden = notices.length === 0;
  if (said === JSON.stringify(notices)) return;
  said = JSON.stringify(notices);
  get("notices").replaceChildren(...notices.map(({ code, text }) => made("li", {}, made("strong", {}, code), `: ${text}`)));
}

function nobodyYet(state) {
  if (state.closed) return [made("p", { class: "quiet" }, "No device has joined, and the federation is closed.")];
  const token = state.invited_only ? "the link of its invitation" : "the link of its invitation, or this address with the join token";
  return [made("p", { class: "quiet" }, `No device has joined yet. Each site opens ${token}, in a browser:`), copyable(`${location.origin}/join`, "the address"),
    made("p", { class: "quiet" }, "Or it runs this, with its own name and table:"), copyable(joinCommand(state, "NAME", `${state.name}.token`), "the command")];
}

function clustered(state) {
  if (state.n_clusters_found === null) return "not aggregated yet";
  const by = state.answered_by ? ` (${state.answered_by} rule)` : "";
  const again = state.version > 1 ? `; made ${count.format(state.version)} times so far` : "";
  return `from ${plural(state.n_aggregated, "device")}${by}${again}`;
}

function quorum(state) {
  const left = state.n_devices - state.n_aggregated;
  if (state.n_clusters_found !== null) return left > 0 ? `${count.format(left)} not aggregated yet` : "all of them aggregated";
  const missing = (state.quorum ?? 0) - state.n_devices;
  if (missing > 0) return `quorum ${count.format(state.quorum)}: ${count.format(missing)} missing`;
  if (state.quorum) return `quorum ${count.format(state.quorum)}`;
  return state.n_devices === 0 ? "nobody has joined" : `${count.format(left)} not aggregated yet`;
}

function terms(state) {
  const when = [];
  if (state.quorum) when.push(`at ${plural(state.quorum, "device")}`);
  if (state.deadline) when.push(`by ${new Date(state.deadline * 1000).toLocaleString()}`);
  const names = state.feature_names ? ` (${state.feature_names.slice(0, 8).join(", ")}${state.feature_names.length > 8 ? ", …" : ""})` : "";
  const k = state.n_clusters_asked ? `chosen: ${plural(state.n_clusters_asked, "cluster")}` : state.n_clusters === null ? "the best k" : state.n_clusters === "auto" ? "k if one stands out" : `k = ${state.n_clusters}`;
  const what = plural(state.n_features, state.by_column || state.agreed_schema ? "column" : "feature");
  const who = state.invited_only ? " · by invitation" : "";
  const resting = ` · devices needed for a cluster: ${state.min_devices ? count.format(state.min_devices) : "set by the rule"}`;
  const seen = `; for its center to be shown: ${count.format(state.min_devices_shown)}`;
  return `${what}${names}${state.agreed_schema ? " by a schema" : ""} · ${k} · ${rule(state)} · aggregates ${when.join(" or ") || "on request"}${who}${resting}${seen}`;
}

function rule(state) {
  return state.answered_by && state.answered_by !== state.rule ? `rule: ${state.rule} (used: ${state.answered_by})` : `rule: ${state.rule}`;
}

// At most one picture at a time, and at most one a second.
async function schedulePicture() {
  if (drawing) { waiting = true; return; }
  drawing = true;
  await new Promise((resume) => setTimeout(resume, Math.max(0, drawn + PACE - performance.now())));
  const name = chosen();
  try {
    const answer = await fetch(`/v1/federations/${encodeURIComponent(name)}/picture`, { headers: headers(), cache: "no-store" });
    if (answer.ok && name === chosen()) renderPicture(await answer.json(), federations.get(name));
  } catch { /* the next event draws it */ }
  drawn = performance.now();
  drawing = false;
  if (waiting) { waiting = false; schedulePicture(); }
}

function renderPicture(picture, state) {
  const part = picture.n_shown < state.n_devices ? `The ${count.format(picture.n_shown)} newest devices, on` : "On";
  const nOutside = drawMap(get("map"), picture);
  const outside = nOutside ? `; ${count.format(nOutside)} far outside ${nOutside === 1 ? "is" : "are"} drawn at the edge` : "";
  get("map-note").textContent = `${part} the plane in which they spread most; a cross marks the center of a cluster${outside}`;
  drawSizes(get("sizes"), picture.cluster_sizes, picture.names);
  put("curve-note", picture.are_summaries ? "Of summaries they show no number of clusters; the comparison below does" : "A drop after the k-th pick suggests k clusters");
  drawCurve(get("curve"), picture.distances, state.n_clusters_found);
  drawArrivals(get("arrivals"), picture.arrivals, state.n_devices);
  const focused = document.activeElement?.dataset?.device;
  get("devices").replaceChildren(...picture.devices.map((device) => row(device, state)));
  if (focused) get("devices").querySelector(`button[data-device="${CSS.escape(focused)}"]`)?.focus();
}

function row(device, state) {
  const name = made("td", {}, device.device_id, device.late ? made("span", { class: "late" }, "late") : null);
  return made("tr", {}, name, made("td", {}, clock(device.received_at)),
    made("td", { class: "number" }, count.format(device.n_centers)),
    made("td", { class: "number" }, count.format(device.n_bytes), isAdmin() ? removeButton(state, device) : null));
}

addEventListener("gone", ({ detail: name }) => { federations.delete(name); location.hash = "#/"; render(); });
addEventListener("hashchange", () => { drawn = 0; creating = false; render(); get("main").focus(); });
get("welcome-commands").append(
  copyable(`kfed federation create clinics --columns age,bmi,systolic,glucose --quorum 3 --url ${location.origin}`, "the first command"),
  copyable(joinCommand({ name: "clinics" }, "north", "clinics.token"), "the second command"));
followLink().then((problem) => { get("sign-in-problem").textContent = problem; }).catch(() => {}).then(listen);
