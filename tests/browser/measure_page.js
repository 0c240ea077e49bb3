// What on this page a reader could not see, hear or reach, a sentence each.
() => {
  const faults = [];
  const seen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const brief = (text) => `"${text.trim().replace(/\s+/g, " ").slice(0, 40)}"`;

  // Colours, with transparency laid over what stands behind.
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  // A page has ten thousand pieces of text in a few colours: what is asked again is remembered.
  const remembered = (of, known = new Map()) => (key) => {
    if (!known.has(key)) known.set(key, of(key));
    return known.get(key);
  };
  const rgba = remembered((colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  });
  const over = (front, back) => [0, 1, 2].map((i) => front[i] * front[3] + back[i] * (1 - front[3]));
  const paper = remembered((element) => {
    if (!element) return [255, 255, 255];
    const fill = rgba(getComputedStyle(element).backgroundColor);
    return fill[3] === 1 ? fill.slice(0, 3) : over(fill, paper(element.parentElement));
  });
  const opacity = remembered(
    (element) => (element ? getComputedStyle(element).opacity * opacity(element.parentElement) : 1));
  const light = (colour) => {
    const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (element, colour) => {
    const [r, g, b, a] = rgba(colour);
    const back = paper(element);
    const ink = [r, g, b, a * opacity(element)];
    const [dark, bright] = [light(back), light(over(ink, back))].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const told = new Set();
  const check = (element, colour, what) => {
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const wanted = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    const found = contrast(element, colour);
    const fault = `contrast ${found.toFixed(2)} instead of ${wanted} (${colour} in ${element.className || element.localName})`;
    if (found < wanted && !told.has(fault)) {
      told.add(fault);
      faults.push(`${what}: ${fault}`);
    }
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (texts.currentNode.data.trim() && !element.closest("script, style, title") && seen(element)) {
      check(element, getComputedStyle(element).color, brief(texts.currentNode.data));
    }
  }
  for (const input of document.querySelectorAll("input[placeholder]")) {
    if (seen(input)) check(input, getComputedStyle(input, "::placeholder").color, brief(input.placeholder));
  }

  for (const image of document.images) {
    if (!(image.alt || "").trim()) faults.push("a figure without alternative text");
    if (!image.naturalWidth) faults.push(`a figure that does not load: ${brief(image.alt)}`);
  }

  const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(seen);
  const titles = headings.filter((heading) => heading.localName === "h1");
  if (titles.length !== 1) faults.push(`${titles.length} headings of the first level instead of one`);
  headings.forEach((heading, i) => {
    const before = i ? +headings[i - 1].localName[1] : 0;
    if (heading.localName[1] - before > 1) faults.push(`a heading jumps a level: ${brief(heading.textContent)}`);
  });

  for (const control of document.querySelectorAll("a, button, input, select, textarea, summary, [role=button]")) {
    if (control.type === "hidden" || !seen(control)) continue;
    const label = control.ariaLabel || control.labels?.[0]?.textContent || control.title || control.textContent;
    const name = label.trim() || [...control.querySelectorAll("img")].map((image) => image.alt).join("");
    if (!name) faults.push(`a control without a name: ${control.outerHTML.slice(0, 60)}`);
    if (control.localName !== "a" || control.hasAttribute("href")) {
      if (control.tabIndex < 0) faults.push(`a control that no key reaches: ${brief(name)}`);
    }
  }

  if (document.documentElement.lang !== "en") faults.push("the page does not say its language");
  if (!document.title.trim()) faults.push("the page has no title");
  const outside = document.documentElement.scrollWidth - innerWidth;
  if (outside > 0) faults.push(`the page is ${outside} px wider than the window`);
  return faults;
};
