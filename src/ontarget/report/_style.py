"""The one style sheet of all pages: light, dark and print; it loads nothing from elsewhere."""

from __future__ import annotations

from typing import Final

from ontarget.evaluation.figures import theme_css

_PAGE: Final = """\
:root { color-scheme: light dark; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ontarget-paper); color: var(--ontarget-ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: .2rem 0 .4rem; text-wrap: balance; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 3rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p { margin: .4rem 0; max-width: 44rem; }
.kicker { color: var(--ontarget-muted); font-size: .92rem; max-width: none; margin: 0;
  overflow-wrap: anywhere; }
.action { max-width: none; font-size: 1.12rem; margin: .8rem 0; }
.action span { display: inline-block; margin-right: 1.6em; }
.about, .note { color: var(--ontarget-muted); }
.note { font-size: .92rem; }
.warning { border-left: .3rem solid var(--ontarget-vermilion); padding: .1rem 0 .1rem 1rem; }
.verdict { list-style: none; margin: 1.6rem 0 0; padding: 0; }
.verdict li { border-left: .3rem solid var(--ontarget-green); padding: .1rem 0 .1rem 1rem;
  margin: 0 0 1.1rem; }
.verdict li.poor { border-left-color: var(--ontarget-vermilion); }
.verdict li.neither { border-left-color: var(--ontarget-muted); }
.verdict strong { display: block; font-size: 1.12rem; line-height: 1.35; font-weight: 600; }
.verdict li:first-child strong { font-size: 1.45rem; }
.verdict .mark { color: var(--ontarget-green); margin-right: .3em; }
.verdict .poor .mark { color: var(--ontarget-vermilion); }
.verdict .neither .mark { color: var(--ontarget-muted); }
.verdict span.detail { color: var(--ontarget-muted); font-size: .92rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr));
  gap: 0 2.5rem; align-items: start; }
figure { margin: 1.2rem 0 0; }
figure svg { display: block; }
figure h3 { margin-top: 0; }
figcaption { color: var(--ontarget-muted); font-size: .92rem; margin-top: .5rem; max-width: 44rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
.scroll + .scroll { margin-top: 1.8rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .9rem .4rem 0;
  border-bottom: 1px solid var(--ontarget-rule); }
th:last-child, td:last-child { padding-right: 0; }
td { white-space: nowrap; }
.pair th, .pair td { padding-right: .5rem; font-size: .88rem; }
.sentences td { white-space: normal; }
.sentences tbody th { min-width: 6.5rem; overflow-wrap: anywhere; }
thead th { color: var(--ontarget-muted); font-weight: 500; vertical-align: bottom; }
tbody th { font-weight: 400; }
th.number, td.number { text-align: right; white-space: nowrap; }
ul.points { margin: .4rem 0; padding-left: 1.2rem; }
ul.points s { color: var(--ontarget-muted); }
ul.points li { margin: .35rem 0; }
footer { margin-top: 3.5rem; color: var(--ontarget-muted); font-size: .85rem;
  border-top: 1px solid var(--ontarget-rule); padding-top: .8rem; }
@media print {
  @page { margin: 14mm 15mm; }
  :root { font-size: 9pt; }
  body { line-height: 1.4; }
  main { max-width: none; padding: 0; }
  h1 { font-size: 18pt; }
  h2 { margin-top: 1.4rem; font-size: 12pt; }
  h2, h3, caption, thead { break-after: avoid; }
  .verdict { margin-top: 1rem; }
  .verdict li { margin-bottom: .7rem; }
  .verdict strong, .verdict li:first-child strong { font-size: 11pt; }
  .verdict span.detail, figcaption, table { font-size: 8pt; }
  figure, table, .verdict li, ul.points s { color: var(--ontarget-muted); }
ul.points li { break-inside: avoid; }
  figcaption, .note { break-before: avoid; }
  p { max-width: none; }
  section:last-of-type { break-inside: avoid; }
  th, td { padding: .2rem .6rem .2rem 0; }
  .scroll { overflow: visible; }
  td { white-space: normal; }
  .pair { grid-template-columns: 1fr 1fr; gap: 0 1.5rem; }
  figure { margin-top: .6rem; }
}
"""


def style_sheet() -> str:
    """The CSS of a page, including the rules that give its figures light or dark colours."""
    return theme_css() + _PAGE
