// What is wrong with the deck on this page, slide by slide, at 1280 x 720: [{cell, fault}]. It measures ink: the
// boxes of text, pictures and formulas as they are drawn, not those of the elements around them.
() => {
  // Left and right lie reveal.js's arrows; below lies the slide's number.
  const SAFE = { left: 44, right: 1236, top: 12, bottom: 680 };
  const [SMALLEST_TEXT, SMALLEST_FIGURE, CONTRAST, CONTRAST_LARGE] = [16, 0.7, 4.5, 3];
  const faults = [];
  const px = (n) => `${Math.ceil(n)} px`;
  const quote = (text) => `“${text.trim().replace(/\s+/g, " ").slice(0, 40)}”`;

  function rgb(colour) {
    const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
    return { r, g, b, a };
  }
  function luminance({ r, g, b }) {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  }
  const over = (top, below) => Object.fromEntries(
    ["r", "g", "b"].map((k) => [k, top[k] * top.a + below[k] * (1 - top.a)]));
  function contrast(element) {
    const chain = [];
    for (let e = element; e; e = e.parentElement) chain.unshift(getComputedStyle(e));
    let ground = { r: 255, g: 255, b: 255 };
    let opacity = 1;
    for (const style of chain) {
      ground = over(rgb(style.backgroundColor), ground);
      opacity *= Number(style.opacity);
    }
    const colour = rgb(getComputedStyle(element).color);
    const ink = over({ ...colour, a: colour.a * opacity }, ground);
    const [low, high] = [luminance(ink), luminance(ground)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }

  // Every piece of ink under an element: a name, a box and, for text, the element that gives its style.
  function inks(root) {
    const found = [];
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    for (let node = root; node; node = walker.nextNode()) {
      const element = node.nodeType === Node.TEXT_NODE ? node.parentElement : node;
      if (!element || element.closest("mjx-assistive-mml, aside") || getComputedStyle(element).visibility === "hidden") continue;
      if (node.nodeType === Node.TEXT_NODE) {
        if (!node.textContent.trim() || element.closest("svg")) continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        for (const box of range.getClientRects())
          if (box.width && box.height) found.push({ name: quote(node.textContent), box, text: element, node });
      } else if (node.matches("img, svg, iframe, canvas")) {
        const name = node.closest("mjx-container") ? "a formula" : node.matches("img") ? "the figure" : `<${node.localName}>`;
        found.push({ name, box: node.getBoundingClientRect(), node });
      }
    }
    return found;
  }

  // Of all ink that lies beyond one side, only the farthest is told.
  function checkPlace(drawn, say) {
    const beyond = {
      "ends too low": (box) => box.bottom - SAFE.bottom, "ends too far right": (box) => box.right - SAFE.right,
      "begins too high": (box) => SAFE.top - box.top, "begins too far left": (box) => SAFE.left - box.left,
    };
    for (const [where, by] of Object.entries(beyond)) {
      const farthest = drawn.reduce((a, b) => (by(b.box) > by(a.box) ? b : a));
      if (by(farthest.box) > 0) say(`${farthest.name} ${where}, by ${px(by(farthest.box))}`);
    }
  }
  function checkCut({ name, box, text, node }, slide, say) {
    for (let e = text ?? node.parentElement; e && e !== slide; e = e.parentElement) {
      if (e.closest("svg") || getComputedStyle(e).overflow === "visible") continue;
      const frame = e.getBoundingClientRect();
      if (box.bottom > frame.bottom + 1 || box.right > frame.right + 1) say(`${name} is cut off by its box`);
    }
  }

  function checkText(ink, say) {
    const style = getComputedStyle(ink.text);
    const size = parseFloat(style.fontSize);
    if (size < SMALLEST_TEXT) say(`${ink.name} is ${size} px small, not ${SMALLEST_TEXT}`);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = contrast(ink.text);
    if (ratio < (large ? CONTRAST_LARGE : CONTRAST)) say(`${ink.name} has a contrast of only ${ratio.toFixed(1)}`);
    if (!ink.text.closest("code, pre") && /\$\$|\\[([]|\$[^$\s][^$]*\$|\\[a-zA-Z]+[{_^]/.test(ink.node.textContent))
      say(`${ink.name} holds a formula that was not drawn`);
  }

  function checkFigure(img, say) {
    if (!img.complete || !img.naturalWidth) return say("the figure does not load");
    if (!img.alt.trim()) say("the figure has no alternative text");
    const own = Number(img.getAttribute("width")) || img.naturalWidth;
    const scale = Math.min(img.clientWidth, img.clientHeight * img.naturalWidth / img.naturalHeight) / own;
    if (scale < SMALLEST_FIGURE) say(`the figure is drawn at ${Math.round(scale * 100)} % of its size, too small to read: draw it flatter, figsize=(12, 3.2), or divide the slide`);
  }

  // The parts of a slide, from top to bottom: what stands in each block, one by one.
  const parts = (slide) => [...slide.querySelectorAll(".block, .eyebrow")].flatMap((block) =>
    (block.children.length && !block.matches(".eyebrow") ? [...block.children] : [block])
      .map((part) => ({ part, cell: block.dataset.cell ?? slide.dataset.cell })));

  Reveal.configure({ fragments: false });
  for (const slide of Reveal.getSlides()) {
    const { h, v } = Reveal.getIndices(slide);
    Reveal.slide(h, v);
    const said = new Set();
    const sayOf = (cell) => (fault) => {
      if (!said.has(cell + fault)) faults.push({ cell, fault });
      said.add(cell + fault);
    };
    if (!Reveal.getSlideNotes(slide)?.trim()) sayOf(slide.dataset.cell)("the speaker view has no notes");
    const boxes = [];
    for (const { part, cell } of parts(slide)) {
      const say = sayOf(cell);
      const all = inks(part);
      all.forEach((ink) => ink.text && checkText(ink, say));
      // A listing that scrolls says how much more there is, and its frame stands for what is in it.
      const drawn = all.filter(({ text, node }) => !(text ?? node).closest(".scrolls"));
      if (part.matches(".scrolls")) drawn.push({ name: "a listing", box: part.getBoundingClientRect(), node: part });
      drawn.forEach((ink) => checkCut(ink, slide, say));
      if (drawn.length) checkPlace(drawn, say);
      part.querySelectorAll("img").forEach((img) => checkFigure(img, say));
      if (part.matches("img")) checkFigure(part, say);
      for (const error of part.querySelectorAll("[data-mjx-error]")) say(`a formula is wrong: ${error.dataset.mjxError}`);
      if (!drawn.length) continue;
      boxes.push({
        name: drawn[0].name, cell,
        left: Math.min(...drawn.map((ink) => ink.box.left)), right: Math.max(...drawn.map((ink) => ink.box.right)),
        top: Math.min(...drawn.map((ink) => ink.box.top)), bottom: Math.max(...drawn.map((ink) => ink.box.bottom)),
      });
    }
    boxes.forEach((one, i) => boxes.slice(i + 1).forEach((other) => {
      const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      if (across > 2 && down > 2) sayOf(other.cell)(`${other.name} covers ${px(down)} of ${one.name}`);
    }));
  }
  return faults;
}
