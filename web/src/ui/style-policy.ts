/**
 * Lets libraries that write `<style>` elements and `style` attributes work under the page's
 * Content-Security-Policy, which forbids both. Their rules go through the style object model instead,
 * which the policy allows. Import this file before such a library.
 */
const create = document.createElement.bind(document);
const setAttribute = Element.prototype.setAttribute;

Element.prototype.setAttribute = function (name: string, value: string) {
  if (name === "style" && this instanceof HTMLElement) this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

document.createElement = ((name: string, options?: ElementCreationOptions) =>
  name.toLowerCase() === "style" ? styleElement() : create(name, options)) as typeof document.createElement;

/** An element in the place of a `<style>`: its text becomes a sheet of the document. */
function styleElement(): HTMLElement {
  const element = create("template");
  const sheet = new CSSStyleSheet();
  let text = "";
  const replace = (next: string) => {
    text = next;
    sheet.replaceSync(next);
    if (!document.adoptedStyleSheets.includes(sheet)) document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  };
  const append = element.appendChild.bind(element);
  Object.defineProperties(element, {
    sheet: { get: () => sheet },
    textContent: { get: () => text, set: replace },
    appendChild: {
      value: (node: Node) => {
        if (!(node instanceof Text)) return append(node);
        replace(text + node.data);
        return node;
      },
    },
    remove: {
      value: () => {
        document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
        HTMLElement.prototype.remove.call(element);
      },
    },
  });
  return element;
}
