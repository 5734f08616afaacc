"""How the HTML report looks: one column that fits a phone, in the colours that the reader's device prefers."""

STYLE = """
:root { color-scheme: light dark; --text: #1c2126; --soft: #5d6873; --page: #fafbfc; --card: #fff; --line: #dfe4e9;
  --link: #1f5fa8; --good: #1c7a43; --bad: #b3402a; --none: #8a6d1a; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e8ec; --soft: #9aa6b2; --page: #14181c; --card: #1d2228; --line: #343b43; --link: #7fb2ee;
    --good: #63c98a; --bad: #f08a72; --none: #d9b85a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0; }
p { margin: .6rem 0; }
a { color: var(--link); }
.tally { font-size: 1.1rem; font-weight: 600; }
.facts, .where, .reason, dt, caption { color: var(--soft); font-size: .9rem; }
.where { margin-top: .1rem; }
nav { display: flex; flex-wrap: wrap; gap: .4rem .5rem; margin: 1.2rem 0; }
nav a { background: var(--card); border: 1px solid var(--line); border-radius: 2rem; padding: .25rem .75rem;
  text-decoration: none; color: var(--text); font-size: .9rem; }
.dot { display: inline-block; width: .6rem; height: .6rem; border-radius: 50%; margin-right: .45rem; }
.dot.good { background: var(--good); }
.dot.bad { background: var(--bad); }
.dot.mixed { background: linear-gradient(90deg, var(--good) 50%, var(--bad) 50%); }
.dot.skipped { background: var(--none); }
section { background: var(--card); border: 1px solid var(--line); border-radius: .8rem; padding: 1.2rem;
  margin: 1.2rem 0; }
article { border-left: 3px solid var(--line); padding: .1rem 0 .1rem .9rem; margin: 1rem 0; }
article p { margin: .25rem 0; }
.verdict { display: inline-block; font-size: .8rem; font-weight: 600; border: 1px solid currentColor;
  border-radius: .3rem; padding: 0 .4rem; margin-right: .5rem; }
.verdict.reproduced, .verdict.exceeded { color: var(--good); }
.verdict.not-reproduced { color: var(--bad); }
.skip { color: var(--none); overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: .2rem 1rem; margin: .3rem 0; }
dd { margin: 0; }
img { display: block; width: 100%; min-width: 34rem; height: auto; background: #fff; border-radius: .4rem;
  padding: .4rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; min-width: 100%; }
caption { text-align: left; padding-bottom: .4rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
code { font: .85rem ui-monospace, monospace; }
@media print { section { break-inside: avoid; } nav { display: none; } }
"""
