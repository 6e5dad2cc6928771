// Elements from plain values. Text only ever becomes text: nothing here reads HTML.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((one) => one !== null && one !== undefined));
  return element;
}

export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Put these in the place of an element's children, unless they are the same already. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((one) => one !== null && one !== undefined));
}

/** Set text only where it differs: what does not change is not painted again. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** A table: its caption, its head, and rows of cells, which are texts or elements. */
export function table(caption, head, rows, numbers = []) {
  const side = (k) => (numbers.includes(k) ? "number" : null);
  const width = head.length > 6 ? "broad" : head.length < 5 ? "facts" : null; // on a narrow screen
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { class: width },
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, head.map((cell, k) => h("th", { scope: "col", class: side(k) }, cell)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, k) =>
        k === 0 ? h("th", { scope: "row", class: side(k) }, cell) : h("td", { class: side(k) }, cell)))))));
}
