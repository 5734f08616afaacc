// The page at /join: from an invitation to the clusters of a table that never leaves the browser. Nothing is stored.

import { deviceLine, invitationIn, newSecret, newTicket, readTicket } from "./line.js";
import { make, numbersTable, profileTable, rowOf } from "./tables.js";
import { count, fail, listed, plural, quoted } from "./words.js";

/** @typedef {import("./kinds.js").Terms} Terms */
/** @typedef {import("./line.js").Ticket} Ticket */
/** @typedef {import("./site.js").Wish} Wish */

const SECTIONS = ["invitation", "table", "columns", "work", "leaves", "sent", "answer"];
const get = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const capital = (/** @type {string} */ words) => words.charAt(0).toUpperCase() + words.slice(1);
/** @type {(id: string, words: string) => void} */
const say = (id, words) => { get(id).textContent = words; };
/** @type {(id: string, kind: string, act: (event: Event) => void) => void} */
const on = (id, kind, act) => get(id).addEventListener(kind, act);
const input = (/** @type {string} */ id) => /** @type {HTMLInputElement} */ (get(id));
const state = {
  invitation: { federation: "", device: "", token: "" }, terms: /** @type {Terms} */ ({ by_column: false, n_features: 0, feature_names: null }), agreed: /** @type {string | null} */ (null),
  grouped: /** @type {any} */ (null), ticket: /** @type {Ticket | null} */ (null), isKept: true, fileName: "",
};

// The worker -------------------------------------------------------------------------------------------------------

const worker = new Worker("/join/worker.js", { type: "module" });
const waiting = /** @type {Map<number, { done: (result: any) => void, failed: (error: Error) => void }>} */ (new Map());
let asked = 0;

/** Let the thread that has the rows do something. @type {(task: string, given: object) => Promise<any>} */
function ask(task, given) {
  return new Promise((done, failed) => {
    waiting.set(++asked, { done, failed });
    worker.postMessage({ id: asked, task, given });
  });
}

worker.addEventListener("message", ({ data }) => {
  if (!data.id) return progress(data.words, data.share);
  const one = waiting.get(data.id);
  waiting.delete(data.id);
  if (data.error) one?.failed(new Error(data.error));
  else one?.done(data.result);
});
worker.addEventListener("error", () => problem("this page could not start the thread that reads tables; use a newer browser, or `kfed join`"));

/** @type {(words: string, share: number) => void} */
function progress(words, share) {
  input("progress").value = String(share);
  if (get("work-words").textContent !== words) say("work-words", words); // said once by a screen reader, not at every step
}

// Steps ------------------------------------------------------------------------------------------------------------

/** Show one step, and put the focus on its title. @param {string} name */
function show(name) {
  for (const one of SECTIONS) get(one).hidden = one !== name;
  get("return").hidden = !["invitation", "table"].includes(name);
  document.querySelectorAll("#steps li").forEach((item) => {
    if (/** @type {HTMLElement} */ (item).dataset.step === name) item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
  });
  get(`${name}-title`).focus();
}

/** @param {string} words */
function problem(words) {
  say("problem", /^[^:]+\.\w+: /.test(words) ? words : capital(words)); // the name of a file stays as it is
  if (words) get("problem").scrollIntoView({ block: "nearest" });
}

/** Do something while the page says that it works; go back to `from` if it fails. @template T @param {string} from @param {() => Promise<T>} task @returns {Promise<T | undefined>} */
async function working(from, task) {
  problem("");
  progress("", 0);
  show("work");
  try {
    return await task();
  } catch (error) {
    show(from);
    problem(error instanceof Error ? error.message : String(error));
  }
}

const line = () => deviceLine(state.invitation.federation, state.invitation.device);

async function enter() {
  const { federation, device, token } = state.invitation;
  say("title", `Join ${federation}`);
  say("where", device);
  const terms = await working("invitation", () => line().terms(token));
  if (!terms) return;
  state.terms = terms;
  const columns = terms.feature_names ? `: ${listed(terms.feature_names, 20)}` : "";
  say("terms", `${federation} takes ${terms.by_column ? "tables of" : "numbers in"} ${plural(terms.n_features, "column")}${columns}.`
    + (terms.by_column ? " Cells may be missing, and columns may stand in any order." : " Every cell must be filled, on the scale that the sites agreed on."));
  get("agreed-part").hidden = terms.by_column;
  show("table");
  if (terms.max_epsilon) {
    input("file").disabled = true;
    problem(`${federation} takes differentially private messages alone (epsilon up to ${terms.max_epsilon}), which this page cannot make. Use \`kfed join --epsilon ${terms.max_epsilon}\` instead.`);
  }
}

/** @param {File} file */
async function readTable(file) {
  const found = await working("table", async () => {
    const [agreed] = input("agreed").files ?? [];
    state.agreed = agreed ? await agreed.text() : null;
    return ask("read", { file, terms: state.terms, agreed: state.agreed });
  });
  input("file").value = "";
  if (!found) return;
  state.fileName = file.name;
  say("table-words", `${file.name} has ${plural(found.nRows, "row")} and ${plural(found.columns.length, "column")}.`);
  const isFree = !state.terms.feature_names && !state.agreed;
  get("column-rows").replaceChildren(...found.columns.map((/** @type {any} */ column) => columnRow(column, isFree)));
  const names = found.columns.map((/** @type {any} */ column) => column.name).filter((/** @type {string} */ name) => name);
  get("id-column").replaceChildren(new Option("every row is somebody else’s", ""), ...names.map((/** @type {string} */ name) => new Option(name, name)));
  show("columns");
}

const KINDS = /** @type {{ [kind: string]: string }} */ ({ number: "number", flag: "yes or no", date: "date", text: "category" });

/** @param {{ name: string, kind: string, filled: number, missing: number, levels: number, isUsed: boolean }} column @param {boolean} isFree */
function columnRow(column, isFree) {
  const kind = column.filled === 0 ? "empty" : KINDS[column.kind] + (column.levels ? ` (${plural(column.levels, "value")})` : "");
  const row = rowOf(column.name, [[kind], [count.format(column.filled), "number"], [column.missing ? count.format(column.missing) : "", "number"], [column.isUsed ? "yes" : "no"]]);
  row.classList.toggle("unused", !column.isUsed);
  if (isFree) {
    const box = make("input", { type: "checkbox", checked: column.isUsed, value: column.name, name: "use", ariaLabel: `use ${column.name}` });
    row.lastElementChild?.replaceChildren(box);
  }
  return row;
}

async function group() {
  const boxes = /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("input[name=use]"));
  const wish = /** @type {Wish} */ ({
    deviceId: state.invitation.device, k: input("k").value ? Number(input("k").value) : "auto", least: Number(input("least").value), idColumn: input("id-column").value || null,
    chosen: boxes.length ? [...boxes].filter((box) => box.checked && box.value !== input("id-column").value).map((box) => box.value) : null,
  });
  const grouped = await working("columns", () => ask("group", { terms: state.terms, agreed: state.agreed, wish }));
  if (!grouped) return;
  state.grouped = { ...grouped, wish };
  showMessage(grouped);
  show("leaves");
}

/** @param {any} grouped */
function showMessage(grouped) {
  const { message, bytes, nRows, nWithheld, notices, warnings } = grouped, { federation } = state.invitation;
  const stay = nWithheld ? ` ${plural(nWithheld, "group")} with too few rows ${nWithheld === 1 ? "stays" : "stay"} here.` : "";
  say("leaves-words", `One message of ${plural(bytes.length, "byte")} to ${federation}: ${plural(message.centers.n, "group")} of the ${plural(nRows, "row")} of ${state.fileName}.${stay}`);
  const said = [...warnings, ...notices];
  fill("notices", said);
  get("notices").hidden = !said.length;
  fill("holds", grouped.holds);
  fill("lacks", grouped.lacks);
  say("numbers-words", message.details ? "Of each group and column: the average, how many cells are filled, and the sum of squared distances to the average. Empty: not told."
    : "Of each group: its rows, their sum of squared distances to the center, and the average of each column.");
  get("numbers").replaceChildren(numbersTable(message));
  const copy = /** @type {HTMLAnchorElement} */ (get("copy"));
  download(copy, new Blob([bytes]), `${state.invitation.device}.kfed`);
}

/** @type {(id: string, lines: string[]) => void} */
const fill = (id, lines) => get(id).replaceChildren(...lines.map((words) => make("li", { textContent: capital(words) })));

/** @type {(link: HTMLAnchorElement, content: Blob | string, name: string) => void} */
function download(link, content, name) {
  if (link.href.startsWith("blob:")) URL.revokeObjectURL(link.href);
  link.href = typeof content === "string" ? content : URL.createObjectURL(content);
  link.download = name;
  link.hidden = false;
}

// Sending and waiting ----------------------------------------------------------------------------------------------

async function send() {
  const { grouped, invitation, terms, agreed } = state;
  // The secret is made before the first attempt and stays, so that an attempt whose answer was lost can be repeated.
  state.ticket ??= newTicket({ federation: invitation.federation, device_id: invitation.device, secret: newSecret(), browser: { wish: grouped.wish, terms, agreed, digest: grouped.digest } });
  state.ticket.browser = { wish: grouped.wish, terms, agreed, digest: grouped.digest };
  const { secret } = state.ticket;
  const answer = await working("leaves", () => line().send(grouped.bytes, invitation.token, secret));
  if (!answer) return;
  state.isKept = false;
  keepTicket();
  await follow(answer);
}

function keepTicket() {
  const { ticket } = state, text = JSON.stringify(ticket, null, 2);
  download(/** @type {HTMLAnchorElement} */ (get("ticket-file")), new Blob([text + "\n"], { type: "application/json" }), `${ticket?.federation}-${ticket?.device_id}.ticket`);
}

/** Wait for the clusters, asking as often as the coordinator allows. @param {ArrayBuffer | import("./line.js").Gathering} answer */
async function follow(answer) {
  const { secret } = /** @type {Ticket} */ (state.ticket);
  if (!(answer instanceof ArrayBuffer)) show("sent");
  for (let failures = 0; !(answer instanceof ArrayBuffer);) {
    const quorum = answer.quorum ? ` of ${count.format(answer.quorum)}` : "";
    say("sent-words", `Your message has arrived. ${count.format(answer.n_devices)}${quorum} ${answer.n_devices === 1 && !quorum ? "site has" : "sites have"} joined; the clusters are not ready yet. ${answer.remark}`);
    await new Promise((resume) => setTimeout(resume, 1000 * Math.max(1, /** @type {any} */ (answer).wait)));
    if (!state.ticket) return;
    try {
      answer = await line().answer(secret);
      failures = 0;
      problem("");
    } catch (error) {
      const status = /** @type {any} */ (error).status;
      problem(/** @type {Error} */ (error).message);
      if (status === 403 || status === 404) return;
      answer = { ...answer, wait: Math.min(60, 2 ** ++failures) };
    }
  }
  await showAnswer(answer);
}

/** @param {ArrayBuffer} payload */
async function showAnswer(payload) {
  const { names } = /** @type {Ticket} */ (state.ticket).browser.terms.by_column ? { names: null } : { names: state.ticket?.browser.terms.feature_names ?? state.grouped?.message.names ?? null };
  const found = await working("sent", () => ask("label", { payload: payload.slice(0), names, agreed: state.agreed }));
  if (!found) return;
  const { profile, rows, url, fileName } = found, k = profile.values.length;
  const held = rows ? rows.filter((/** @type {number} */ n) => n > 0).length : 0;
  say("answer-words", rows ? `${state.invitation.federation} has ${plural(k, "cluster")}; the rows of ${state.fileName} are in ${held} of them.` : `${state.invitation.federation} has ${plural(k, "cluster")}.`);
  get("label-part").hidden = Boolean(rows);
  get("labelled").hidden = true;
  if (rows) download(/** @type {HTMLAnchorElement} */ (get("labelled")), url, fileName);
  say("profile-words", `The center of each cluster: the average of the groups of all sites that are in it.${profile.apart ? " ▲ and ▼: at least one standard deviation above or below the average of all." : ""}`);
  get("profile").replaceChildren(profileTable(profile, rows));
  state.isKept = true;
  show("answer");
  /** @type {any} */ (get("again")).payload = payload;
}

async function withdraw() {
  const { ticket } = state;
  if (!ticket || !confirm(`Withdraw from ${ticket.federation}? Your message is deleted, and the clusters are made without it.`)) return;
  const done = await working("sent", () => line().leave(ticket.secret));
  if (!done) return;
  Object.assign(state, { ticket: null, isKept: true });
  show("sent");
  say("sent-words", `${ticket.device_id} has left ${ticket.federation}.`);
  for (const id of ["ticket-words", "ticket-file", "leave"]) get(id).hidden = true;
}

// Coming back with a ticket ----------------------------------------------------------------------------------------

/** @param {File} file */
async function comeBack(file) {
  const answer = await working("invitation", async () => {
    const ticket = readTicket(await file.text());
    const { federation, device_id: device, browser } = ticket;
    Object.assign(state, { ticket, terms: browser.terms, agreed: browser.agreed, invitation: { federation, device, token: "" } });
    say("title", federation);
    say("where", device);
    return line().answer(ticket.secret);
  });
  input("ticket").value = "";
  if (!answer) return;
  keepTicket();
  await follow(answer);
}

/** Group the same table again: the same rows give the same message, so nothing has to be kept. @param {File} file */
async function labelAgain(file) {
  const { ticket, terms, agreed } = state, { payload } = /** @type {any} */ (get("again"));
  const grouped = await working("answer", async () => {
    const { wish, digest } = /** @type {Ticket} */ (ticket).browser;
    await ask("read", { file, terms, agreed });
    const again = await ask("group", { terms, agreed, wish });
    if (again.digest === digest) return again;
    await ask("forget", {});
    fail(`${file.name}: this must be the table whose groups were sent, unchanged; its groups are others`);
  });
  input("again").value = "";
  if (!grouped) return;
  state.fileName = file.name;
  await showAnswer(payload);
}

// Events -----------------------------------------------------------------------------------------------------------

/** @type {(id: string, take: (file: File) => void) => void} */
const onFile = (id, take) => on(id, "change", () => { const [file] = input(id).files ?? []; if (file) take(file); });
onFile("file", readTable);
onFile("ticket", comeBack);
onFile("again", labelAgain);

const drop = get("drop");
for (const kind of ["dragover", "dragleave", "drop"]) drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.toggle("over", kind === "dragover"); });
drop.addEventListener("drop", (event) => { const [file] = event.dataTransfer?.files ?? []; if (file && !input("file").disabled) readTable(file); });

on("ask", "submit", (event) => {
  event.preventDefault();
  state.invitation = { federation: input("federation").value.trim(), device: input("device").value.trim(), token: input("token").value.trim() };
  enter();
});
on("how", "submit", (event) => { event.preventDefault(); group(); });
on("send", "click", send);
on("leave", "click", withdraw);
on("ticket-file", "click", () => { state.isKept = true; });
document.querySelectorAll("[data-to]").forEach((button) => button.addEventListener("click", () => { problem(""); show(/** @type {HTMLElement} */ (button).dataset.to ?? ""); }));
addEventListener("beforeunload", (event) => { if (!state.isKept) event.preventDefault(); });

// A link's secret leaves the address at once, so that it is in no history and no screenshot.
state.invitation = invitationIn(location.hash);
if (location.hash) history.replaceState(null, "", location.pathname);
if (state.invitation.federation && state.invitation.device && state.invitation.token) enter();
else {
  Object.entries(state.invitation).forEach(([name, value]) => (input(name).value = value));
  show("invitation");
}
