// What search finds first: pages to read before decisions and the changelog. The numbers are Sphinx's own.
var Scorer = {
  score: ([docname, title, anchor, descr, score]) => (/^(decisions\/|changelog)/.test(docname) ? score / 3 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
