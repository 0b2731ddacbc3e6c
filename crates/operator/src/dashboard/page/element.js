// Elements from script: the page's policy allows no markup with styles in it, and text is never taken for markup.

const SVG = 'http://www.w3.org/2000/svg';

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== ''));
  return element;
}

/** An element of HTML. Attributes that are undefined or false are left out. */
export const make = (name, attributes = {}, ...children) => build(document.createElement(name), attributes, children);

/** An element of a picture. */
export const draw = (name, attributes = {}, ...children) => build(document.createElementNS(SVG, name), attributes, children);

/** Sets a text, which costs nothing when it is the same. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
