// The steps of the page at /join: one is shown at a time; the thread that has the rows works behind them. Nothing is stored.

import { deviceLine } from "./line.js";

/** @typedef {import("./kinds.js").Terms} Terms */
/** @typedef {import("./line.js").Ticket} Ticket */

const SECTIONS = ["invitation", "table", "columns", "work", "leaves", "sent", "answer"];
export const get = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
export const capital = (/** @type {string} */ words) => words.charAt(0).toUpperCase() + words.slice(1);
/** @type {(id: string, words: string) => void} */
export const say = (id, words) => {
  get(id).textContent = words;
};
/** @type {(id: string, kind: string, act: (event: Event) => void) => void} */
export const on = (id, kind, act) => get(id).addEventListener(kind, act);
export const input = (/** @type {string} */ id) => /** @type {HTMLInputElement} */ (get(id));
export const state = {
  invitation: { federation: "", device: "", token: "" },
  terms: /** @type {Terms} */ ({ by_column: false, n_features: 0, feature_names: null }),
  agreed: /** @type {string | null} */ (null),
  grouped: /** @type {any} */ (null),
  ticket: /** @type {Ticket | null} */ (null),
  isKept: true,
  fileName: "",
};

// The worker -------------------------------------------------------------------------------------------------------

const worker = new Worker("/join/worker.js", { type: "module" });
const waiting = /** @type {Map<number, { done: (result: any) => void, failed: (error: Error) => void }>} */ (new Map());
let asked = 0;

/** Let the thread that has the rows do something. @type {(task: string, given: object) => Promise<any>} */
export function ask(task, given) {
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
worker.addEventListener("error", () =>
  problem("this page could not start the thread that reads tables; use a newer browser, or `kfed join`"),
);

/** @type {(words: string, share: number) => void} */
function progress(words, share) {
  input("progress").value = String(share);
  if (get("work-words").textContent !== words) say("work-words", words); // said once by a screen reader, not at every step
}

// Steps ------------------------------------------------------------------------------------------------------------

/** Show one step, and put the focus on its title. @param {string} name */
export function show(name) {
  for (const one of SECTIONS) get(one).hidden = one !== name;
  get("return").hidden = !["invitation", "table"].includes(name);
  document.querySelectorAll("#steps li").forEach((item) => {
    if (name !== "work") item.ariaCurrent = /** @type {HTMLElement} */ (item).dataset.step === name ? "step" : null;
  });
  get(`${name}-title`).focus();
}

/** @param {string} words */
export function problem(words) {
  say("problem", /^[^:]+\.\w+: /.test(words) ? words : capital(words)); // the name of a file stays as it is
  if (words) get("problem").scrollIntoView({ block: "nearest" });
}

/** Do something while the page says that it works; go back to `from` if it fails. @template T @param {string} from @param {() => Promise<T>} task @returns {Promise<T | undefined>} */
export async function working(from, task) {
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

export const line = () => deviceLine(state.invitation.federation, state.invitation.device);

/** @type {(link: HTMLAnchorElement, content: Blob | string, name: string) => void} */
export function download(link, content, name) {
  if (link.href.startsWith("blob:")) URL.revokeObjectURL(link.href);
  link.href = typeof content === "string" ? content : URL.createObjectURL(content);
  link.download = name;
  link.hidden = false;
}
