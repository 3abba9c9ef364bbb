const SVG = "http://www.w3.org/2000/svg";

/** An SVG element with attributes. */
export function svg<K extends keyof SVGElementTagNameMap>(
  name: K,
  attributes: Record<string, string | number> = {},
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, name);
  setAttributes(element, attributes);
  return element;
}

/** Sets several attributes. */
export function setAttributes(element: Element, attributes: Record<string, string | number>): void {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
}

/** An HTML element with a class and text. */
export function html<K extends keyof HTMLElementTagNameMap>(
  name: K,
  className = "",
  text = "",
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

/** The element with an id; the page is broken without it. */
export function byId<T extends Element>(id: string, type: new () => T): T {
  const element = document.getElementById(id);
  if (!(element instanceof type)) throw new Error(`the page has no ${type.name} with the id ${id}`);
  return element;
}

/** Makes the children of an element follow a list: kept by key, so that they move instead of blinking. */
export function reconcile<T, E extends Element>(
  parent: Element,
  items: readonly T[],
  key: (item: T) => string,
  create: (item: T) => E,
  update: (element: E, item: T) => void,
): void {
  const old = new Map([...parent.children].map((child) => [child.getAttribute("data-key"), child as E]));
  const keys = new Set(items.map(key));
  for (const [name, element] of old) if (name === null || !keys.has(name)) element.remove();
  for (const [index, item] of items.entries()) {
    const name = key(item);
    const element = old.get(name) ?? create(item);
    element.setAttribute("data-key", name);
    update(element, item);
    // One that stands right is not touched: it may have the focus.
    const there = parent.children[index] ?? null;
    if (there !== element) parent.insertBefore(element, there);
  }
}

/** Sets the text of an element, if it is another. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
