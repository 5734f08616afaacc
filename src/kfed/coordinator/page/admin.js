// What an administrator does: create federations, invite sites, aggregate, close, remove and delete.

import { ask, at, isAdmin, save } from "/assets/api.js";
import { clock, confirmed, copyable, get, made } from "/assets/dom.js";

const FILES = { aggregation: "clusters.kfed", report: "report.html", centers: "centers.csv" };

/** Do something for the administrator, and say what became of it. */
export async function act(work, words) {
  get("done").textContent = get("problem").textContent = "";
  try {
    await work();
    get("done").textContent = words;
    return true;
  } catch (error) {
    get("problem").textContent = error.message;
    return false;
  }
}

function button(text, work, kind = "") {
  return made("button", { type: "button", class: `small ${kind}`, click: (event) => working(event.currentTarget, work) }, text);
}

/** Let a button work, once at a time; it is not disabled meanwhile, as that would take the focus away. */
export async function working(node, work) {
  if (node.ariaBusy) return;
  node.ariaBusy = "true";
  try { await work(); } finally { node.ariaBusy = null; }
}

// Actions ----------------------------------------------------------------------------------------------------------

let drawnActions = "";

export function renderActions(state) {
  const place = get("actions");
  place.hidden = !isAdmin();
  const key = JSON.stringify([state.name, isAdmin(), state.state, state.closed, state.n_devices > 0, state.rounds, state.round, state.n_second > 0]);
  if (key === drawnActions) return;
  drawnActions = key;
  const focused = place.contains(document.activeElement) ? document.activeElement.textContent : "";
  place.replaceChildren(...(isAdmin() ? actions(state) : []));
  if (focused) ([...place.children].find((node) => node.textContent === focused) ?? place.firstElementChild)?.focus();
}

function actions(state) {
  const { name } = state, made = state.state === "aggregated";
  const download = (which, text) => button(text, () => act(() => save(at(name, "download", which), `${name}-${FILES[which]}`), `Downloaded ${name}-${FILES[which]}.`), "plain");
  return [
    state.n_devices ? button(made ? "Aggregate anew" : "Aggregate now", () => act(() => ask("POST", at(name, "aggregate"), {}), "Aggregated."), made ? "plain" : "") : null,
    state.rounds > 1 && state.round === 1 && state.n_second ? button("Refine now", () => act(() => ask("POST", at(name, "refine")), "Refined."), "plain") : null,
    ...(made ? [download("report", "Download report"), download("centers", "Download centers"), download("aggregation", "Download aggregation")] : []),
    state.closed ? null : button("Close to new devices", () => close(name), "plain"),
    button("Delete…", () => remove(name), "plain danger"),
  ].filter(Boolean);
}

async function close(name) {
  if (!await confirmed(`Close ${name}?`, "New devices are turned away from now on. Those that have joined are still served.", "Close")) return;
  await act(() => ask("POST", at(name, "close")), "Closed to new devices.");
}

async function remove(name) {
  if (!await confirmed(`Delete ${name}?`, "Its devices, clusters and invitations are deleted. This cannot be undone.", "Delete")) return;
  if (await act(() => ask("DELETE", at(name)), "")) dispatchEvent(new CustomEvent("gone", { detail: name }));
}

export function removeButton(state, device) {
  const made = button("Remove", async () => {
    const words = "The others are clustered as if it had never joined, under the same numbers.";
    if (await confirmed(`Remove ${device.device_id}?`, words, "Remove")) {
      await act(() => ask("DELETE", at(state.name, "devices", device.device_id)), `Removed ${device.device_id}.`);
    }
  }, "plain danger");
  made.dataset.device = device.device_id;
  made.setAttribute("aria-label", `Remove ${device.device_id}`);
  return made;
}

// Sites: the command that they run, who is invited, and who is missing ------------------------------------------------

let drawnSites = "";

export function renderSites(state) {
  get("sites-card").hidden = !isAdmin();
  const key = JSON.stringify([state.name, isAdmin(), state.n_devices, state.closed]);
  if (!isAdmin()) get("sites").replaceChildren();
  if (key === drawnSites && get("sites").childElementCount) return;
  drawnSites = key;
  if (isAdmin()) drawSites(state);
}

async function drawSites(state) {
  const field = made("input", { id: "invite-name", required: true, maxlength: 200, autocomplete: "off", placeholder: "north" });
  field.value = get("invite-name")?.value ?? "";
  const form = made("form", { class: "row", submit: (event) => { event.preventDefault(); invite(state, field); } },
    made("label", { for: "invite-name" }, "Invite a site by its name"), field, made("button", { class: "small" }, "Invite"));
  const words = state.closed ? "This federation is closed: no new site can join." : state.invited_only
    ? "Each site joins by an invitation of its own, which works once."
    : "Sites join with the join token, which was shown when the federation was created; or each by an invitation of its own, which works once.";
  const renew = state.closed || state.invited_only ? null : button("New join token…", () => rotate(state), "plain");
  const list = made("div", {});
  get("sites").replaceChildren(made("p", { class: "quiet" }, words), state.closed ? "" : form, list, renew ?? "");
  await drawInvitations(state, list);
}

async function drawInvitations(state, place) {
  let found;
  try { found = await ask("GET", at(state.name, "invitations")); } catch { return; }
  const missing = found.filter((one) => one.used_at === null);
  if (found.length === 0) return place.replaceChildren(made("p", { class: "quiet" }, state.closed ? "Nobody was invited by name." : "Nobody is invited by name yet."));
  const said = missing.length ? `Missing: ${missing.map((one) => one.device_id).slice(0, 20).join(", ")}${missing.length > 20 ? ", …" : ""}` : "All who were invited have joined.";
  const rows = found.map((one) => made("tr", {}, made("td", {}, one.device_id), made("td", {}, clock(one.created_at)),
    made("td", {}, one.used_at === null ? made("span", { class: "late" }, "missing") : clock(one.used_at)),
    made("td", { class: "number" }, one.used_at === null ? revokeButton(state, one) : "")));
  const heads = ["Site", "Invited", "Joined", ""].map((text) => made("th", { scope: "col" }, text));
  place.replaceChildren(made("p", {}, said), made("div", { class: "scroll" }, made("table", {}, made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}, ...rows))));
}

function revokeButton(state, invitation) {
  return button("Revoke", async () => {
    await act(() => ask("DELETE", at(state.name, "invitations", invitation.device_id)), `${invitation.device_id} is no longer invited.`);
    drawSites(state);
    get("invite-name")?.focus();
  }, "plain danger");
}

async function invite(state, field) {
  const device = field.value.trim();
  if (!device) return;
  await act(async () => {
    const made = await ask("POST", at(state.name, "invitations"), { device_id: device });
    field.value = "";
    showOnce(`The invitation of ${device}`, [
      ["Send this link to the site: it joins from a browser, with nothing to install", invitationLink(state.name, device, made.token)],
      ["Or these two: the token, in a file invitation.token", made.token],
      ["and the command", joinCommand(state, device, "invitation.token")],
    ]);
    drawSites(state);
  }, `Invited ${device}.`);
}

async function rotate(state) {
  if (!await confirmed("A new join token?", "The one before stops working at once. Devices that have joined stay.", "Make a new one")) return;
  await act(async () => showJoinToken(state, (await ask("POST", at(state.name, "join-token"))).join_token), "There is a new join token.");
}

// Behind #, so that the token is in no request line and no log.
const invitationLink = (name, device, token) =>
  `${location.origin}/join#federation=${encodeURIComponent(name)}&device=${encodeURIComponent(device)}&token=${encodeURIComponent(token)}`;

const quoted = (text) => (/^[\w.,:\/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

export const joinCommand = (state, device, file) =>
  `kfed join ${location.origin} --federation ${state.name} --token-file ${file} --id ${quoted(device)} --data ${quoted(`${device}.csv`)} -o labels.csv`;

function showJoinToken(state, token) {
  showOnce("The join token", [
    [`Hand it to the sites, in a file ${state.name}.token`, token],
    ["Each site opens this address in a browser, and gives the name of the federation, its own name and the token", `${location.origin}/join`],
    ["Or it runs", joinCommand(state, "NAME", `${state.name}.token`)],
  ]);
}

/** Texts that are not shown again. */
function showOnce(title, texts) {
  const done = () => { get("once").replaceChildren(); get("main").focus(); };
  const close = made("button", { type: "button", class: "small plain", click: done }, "Done");
  const parts = texts.flatMap(([words, text]) => [made("p", {}, `${words}:`), copyable(text, words)]);
  get("once").replaceChildren(made("section", { class: "card once", "aria-label": title, tabindex: -1 },
    made("h2", {}, title), made("p", { class: "quiet" }, "It is shown this once. Send it by a way that you trust."), ...parts, close));
  get("once").firstElementChild.focus();
}

// A new federation ---------------------------------------------------------------------------------------------------

const field = (id, label, attributes, hint = "") => made("div", {}, made("label", { for: id }, label),
  made("input", { id, autocomplete: "off", ...attributes }), hint ? made("p", { class: "quiet", id: `${id}-hint` }, hint) : null);

export function showCreate(finish) {
  const check = (id, text) => made("label", { class: "check" }, made("input", { id, type: "checkbox" }), text);
  const kind = made("select", { id: "create-kind", change: () => kindChanged() },
    made("option", { value: "columns" }, "Tables: columns of numbers, categories and dates"),
    made("option", { value: "features" }, "Numbers that are taken as they are, with names"),
    made("option", { value: "n_features" }, "Numbers without names"));
  const problem = made("p", { class: "problem", role: "alert", id: "create-problem" });
  get("create").replaceChildren(
    made("h1", {}, "New federation"),
    field("create-name", "Name", { required: true, maxlength: 63, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", placeholder: "clinics" }, "Letters, digits, dots, dashes and underscores."),
    made("div", {}, made("label", { for: "create-kind" }, "What sites have"), kind),
    field("create-columns", "Columns", { required: true, placeholder: "age, bmi, systolic, glucose" }, "Their names, with commas between; those of all sites, in any order."),
    made("div", { class: "two" },
      field("create-k", "Number of clusters", { placeholder: "found automatically", inputmode: "numeric", pattern: "[0-9]*" }, "Leave it empty if you do not know."),
      field("create-quorum", "Aggregate once this many sites have joined", { placeholder: "on request", inputmode: "numeric", pattern: "[0-9]*" }, "Leave it empty to aggregate from this page.")),
    check("create-invited", "Only sites that are invited by name may join"),
    check("create-rounds", "Ask sites for a second message, for better clusters"),
    problem,
    made("div", { class: "buttons" }, made("button", { type: "submit" }, "Create"), made("button", { type: "button", class: "plain", click: () => finish("") }, "Cancel")),
  );
  get("create").onsubmit = async (event) => {
    event.preventDefault();
    problem.textContent = "";
    try {
      const answer = await ask("POST", "/v1/federations", newTerms());
      finish(answer.federation.name);
      setTimeout(() => { if (!answer.federation.invited_only) showJoinToken(answer.federation, answer.join_token); }, 300);
    } catch (error) { problem.textContent = error.message; }
  };
  setTimeout(() => get("create-name")?.focus());
}

function kindChanged() {
  const kind = get("create-kind").value, isNumber = kind === "n_features";
  get("create-columns").previousElementSibling.textContent = isNumber ? "How many" : kind === "columns" ? "Columns" : "Features";
  get("create-columns").placeholder = isNumber ? "64" : "age, bmi, systolic, glucose";
  get("create-columns-hint").textContent = isNumber ? "The same for all sites." : kind === "columns"
    ? "Their names, with commas between; those of all sites, in any order." : "Their names, with commas between, in the order that all sites use.";
}

function newTerms() {
  const kind = get("create-kind").value, said = get("create-columns").value.trim();
  const names = said.split(",").map((name) => name.trim()).filter(Boolean);
  const number = (id) => (get(id).value.trim() ? Number(get(id).value) : null);
  const terms = { name: get("create-name").value.trim(), n_clusters: number("create-k"), quorum: number("create-quorum") };
  if (kind === "n_features") terms.n_features = Number(said);
  else Object.assign(terms, { n_features: names.length, feature_names: names, by_column: kind === "columns" });
  terms.invited_only = get("create-invited").checked;
  terms.rounds = get("create-rounds").checked ? 2 : 1;
  return terms;
}
