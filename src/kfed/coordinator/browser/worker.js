// The thread that reads rows. It has no network: the policy that it is served with lets it connect to nothing.

import { siteOf } from "./site.js";

const site = /** @type {any} */ (siteOf((words, share) => self.postMessage({ words, share })));

self.addEventListener("message", async ({ data: { id, task, given } }) => {
  try {
    self.postMessage({ id, result: await site[task](given) });
  } catch (error) {
    // An error of our own has words for people; any other is a fault of this page, and its words could show a cell.
    const isOurs = error instanceof Error && error.constructor === Error;
    const words = isOurs
      ? error.message
      : `this page failed (${error instanceof Error ? error.name : "error"}); use \`kfed join\`, and tell the administrator`;
    const name = given.file?.name ?? site.fileName;
    self.postMessage({ id, error: isOurs && name && task !== "label" ? `${name}: ${words}` : words });
  }
});
