// Small helpers to build the page; text is always text, never markup.

export const get = (id) => document.getElementById(id);
export const count = new Intl.NumberFormat("en");

/** An element with attributes and children; those that are functions listen to events. */
export function made(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function put(id, text) {
  if (get(id).textContent !== text) get(id).textContent = text;
}

export const plural = (number, word) => `${count.format(number)} ${word}${number === 1 ? "" : "s"}`;

export const clock = (seconds) =>
  new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short", hour12: false });

export function bytes(number) {
  const units = ["bytes", "kB", "MB", "GB"];
  const unit = Math.min(3, Math.floor(Math.log10(Math.max(1, number)) / 3));
  return `${(number / 1000 ** unit).toLocaleString("en", { maximumFractionDigits: unit ? 1 : 0 })} ${units[unit]}`;
}

/** A button that copies a text, and says so. */
export function copyButton(text, what) {
  const button = made("button", { type: "button", class: "small plain", "aria-label": `Copy ${what}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const shown = button.parentElement.querySelector("code");
      getSelection().selectAllChildren(shown);
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2500);
  });
  return button;
}

/** A text to copy, with its button. */
export function copyable(text, what) {
  return made("div", { class: "copyable" }, made("code", {}, text), copyButton(text, what));
}

/** Ask whether something should really be done; resolves to true or false. */
export function confirmed(title, words, action) {
  const dialog = get("confirm");
  put("confirm-title", title);
  put("confirm-words", words);
  put("confirm-yes", action);
  dialog.showModal();
  get("confirm-no").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
    dialog.returnValue = "";
  });
}
