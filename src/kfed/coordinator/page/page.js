// The live page: listens for changes, and draws the chosen federation.

import { drawArrivals, drawCurve, drawMap, drawSizes } from "/assets/charts.js";

const PACE = 1000;
const get = (id) => document.getElementById(id);
const count = new Intl.NumberFormat("en");
const federations = new Map();
let drawn = 0, drawing = false, waiting = false;

const token = () => sessionStorage.getItem("kfed-token");
const headers = () => (token() ? { Authorization: `Bearer ${token()}` } : {});
const chosen = () => (federations.has(named()) ? named() : [...federations.keys()][0]);

// The federation that the address names; an address that cannot be decoded names none.
function named() {
  try { return decodeURIComponent(location.hash.replace(/^#\/?/, "")); } catch { return ""; }
}

// Events -----------------------------------------------------------------------------------------------------------

// A link that `kfed serve` printed works once: its code becomes a token of this tab, and leaves the address.
async function followLink() {
  const code = location.hash.match(/^#\/link=([\w-]+)$/)?.[1];
  if (!code) return;
  history.replaceState(null, "", "/");
  const answer = await fetch("/v1/views", { method: "POST", headers: { Authorization: `Bearer ${code}` } });
  if (answer.ok) sessionStorage.setItem("kfed-token", (await answer.json()).token);
  else if (!token()) get("sign-in-problem").textContent = (await answer.json()).detail;
}

async function listen() {
  for (let pause = 500; ; pause = Math.min(pause * 2, 10000)) {
    try {
      const answer = await fetch("/v1/events", { headers: headers(), cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) return askForToken(token() !== null);
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
      if (data) { const state = JSON.parse(data.slice(6)); federations.set(state.name, state); heard = true; }
    }
    if (heard || federations.size === 0) render();
  }
}

function connected(isLive) {
  get("connection").textContent = isLive ? "live" : "reconnecting";
  get("connection").classList.toggle("live", isLive);
}

function askForToken(wasRefused) {
  connected(false);
  get("connection").textContent = "token required";
  get("sign-in").hidden = false;
  get("federation").hidden = get("welcome").hidden = true;
  if (wasRefused) get("sign-in-problem").textContent = "This is not the admin token, or it has expired.";
  get("token").focus();
}

get("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("kfed-token", get("token").value.trim());
  get("sign-in").hidden = true;
  listen();
});

// Rendering --------------------------------------------------------------------------------------------------------

function render() {
  renderList();
  const state = federations.get(chosen());
  get("welcome").hidden = federations.size > 0;
  get("federation").hidden = !state;
  document.title = state ? `${state.name}: ${state.state} · kfed` : "kfed coordinator";
  if (!state) return;
  renderState(state);
  schedulePicture();
}

function renderList() {
  get("no-federations").hidden = federations.size > 0;
  const items = [...federations.values()].map((state) => {
    const item = document.createElement("li"), link = document.createElement("a");
    const name = document.createElement("strong"), about = document.createElement("span");
    link.href = `#/${encodeURIComponent(state.name)}`;
    if (state.name === chosen()) link.setAttribute("aria-current", "page");
    name.textContent = state.name;
    about.textContent = `${state.state} · ${count.format(state.n_devices)} devices`;
    link.append(name, about);
    item.append(link);
    return item;
  });
  const focused = [...get("federations").querySelectorAll("a")].indexOf(document.activeElement);
  get("federations").replaceChildren(...items);
  if (focused >= 0) get("federations").querySelectorAll("a")[focused]?.focus();
}

function renderState(state) {
  const put = (id, text) => { if (get(id).textContent !== text) get(id).textContent = text; };
  put("name", state.name);
  put("state", state.state);
  get("state").className = `badge ${state.state}`;
  get("closed").hidden = !state.closed;
  get("remark").hidden = !state.remark;
  put("remark", state.remark ? `Not aggregated: ${state.remark}` : "");
  put("terms", terms(state));
  const notices = state.notices.map((notice) => notice.text);
  if ([...get("notices").children].map((item) => item.textContent).join("\n") !== notices.join("\n")) {
    get("notices").replaceChildren(...notices.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  }
  get("notices").hidden = notices.length === 0;
  put("n-devices", count.format(state.n_devices));
  put("quorum", state.quorum ? `quorum ${count.format(state.quorum)}` : `${count.format(state.n_devices - state.n_aggregated)} not aggregated yet`);
  put("n-bytes", bytes(state.n_bytes));
  put("per-device", state.n_devices ? `${bytes(state.n_bytes / state.n_devices)} per device` : "one message per device");
  put("n-centers", count.format(state.n_centers));
  put("n-points", `of ${count.format(Math.round(state.n_points))} points, which stay on their devices`);
  put("n-clusters", state.n_clusters_found === null ? "–" : count.format(state.n_clusters_found));
  put("version", state.version ? `clustering ${state.version} of ${count.format(state.n_aggregated)} devices` : "not aggregated yet");
  const strong = document.createElement("strong");
  strong.textContent = state.last_change;
  get("last-change").replaceChildren("Last change: ", strong, ` (${clock(state.changed_at)})`);
}

function terms(state) {
  const when = [];
  if (state.quorum) when.push(`at ${count.format(state.quorum)} devices`);
  if (state.deadline) when.push(`by ${new Date(state.deadline * 1000).toLocaleString()}`);
  const names = state.feature_names ? ` (${state.feature_names.slice(0, 8).join(", ")}${state.feature_names.length > 8 ? ", …" : ""})` : "";
  const k = state.n_clusters === "auto" ? "k chosen automatically" : `k = ${state.n_clusters}`;
  const resting = state.min_devices ? ` · clusters of ${count.format(state.min_devices)} devices or more` : "";
  const seen = ` · devices see centers that rest on ${count.format(state.min_devices_shown)} ${state.min_devices_shown === 1 ? "device" : "devices"} or more`;
  return `${count.format(state.n_features)} features${names} · ${k} · ${state.rule} rule · aggregates ${when.join(" or ") || "on request"}${resting}${seen}`;
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
  get("map-note").textContent = `${part} the plane in which they spread most; a cross marks the center of a cluster`;
  drawMap(get("map"), picture);
  drawSizes(get("sizes"), picture.cluster_sizes);
  drawCurve(get("curve"), picture.distances, state.n_clusters_found);
  drawArrivals(get("arrivals"), picture.arrivals, state.n_devices);
  get("devices").replaceChildren(...picture.devices.map(row));
}

function row(device) {
  const made = document.createElement("tr");
  const cells = [device.device_id, clock(device.received_at), count.format(device.n_centers), count.format(device.n_bytes)];
  cells.forEach((text, position) => {
    const cell = document.createElement("td");
    cell.textContent = text;
    if (position > 1) cell.className = "number";
    made.append(cell);
  });
  if (device.late) {
    const late = document.createElement("span");
    late.className = "late";
    late.textContent = "late";
    made.firstChild.append(late);
  }
  return made;
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "medium", hour12: false });

function bytes(number) {
  const units = ["bytes", "kB", "MB", "GB"];
  const unit = Math.min(3, Math.floor(Math.log10(Math.max(1, number)) / 3));
  return `${(number / 1000 ** unit).toLocaleString("en", { maximumFractionDigits: unit ? 1 : 0 })} ${units[unit]}`;
}

addEventListener("hashchange", () => { drawn = 0; render(); get("main").focus(); });
get("here").textContent = location.origin;
followLink().catch(() => {}).then(listen);
