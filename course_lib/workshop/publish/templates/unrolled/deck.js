// A deck, from formulas to the first slide. While the page is "preparing", all slides are laid out at their full
// size and none is seen, so that formulas and code can be measured; after that reveal.js takes over.
"use strict";

const STAGE = { width: 1280, height: 720 };
// Pixels of type. Words alone may be larger; words beside a figure or a listing give way to it, but not for ever.
const WORDS = { alone: 29, largest: 25, smallest: 22 };
const CODE = { largest: 22, smallest: 18 };
const READABLE = 0.9; // of a figure's own size
const SCROLLING = ["ArrowUp", "ArrowDown", "Home", "End"];
const page = document.documentElement;

function overflows(slide) {
  const room = slide.getBoundingClientRect().bottom - parseFloat(getComputedStyle(slide).paddingBottom);
  return [...slide.querySelectorAll(".block")] // one by one: a fragment can be shorter than what it holds
    .some((block) => block.getBoundingClientRect().bottom > room + 0.5);
}

// A figure's own size is the width that it asks for: it may hold more pixels than that, to be sharp on a projector.
const ownWidth = (img) => Number(img.getAttribute("width")) || img.naturalWidth;
const drawnScale = (img) => Math.min(img.clientWidth, img.clientHeight * img.naturalWidth / img.naturalHeight) / ownWidth(img);

// The largest type at which a slide shows all that it holds. Where even the smallest is too large, long lines of code
// wrap and long listings scroll, and a mark says so.
function fit(slide) {
  const listings = [...slide.querySelectorAll(".highlight")].filter((box) => box.querySelector("span[class]"));
  const figures = [...slide.querySelectorAll(".figure img")];
  const fits = () => !overflows(slide) &&
    listings.every((box) => box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight + 1) &&
    figures.every((img) => drawnScale(img) >= Math.min(READABLE, img.parentElement.clientWidth / ownWidth(img)));
  const alone = !slide.querySelector(".code, .figure, .shown, .printed, .said") && !slide.classList.contains("title");
  for (let words = alone ? WORDS.alone : WORDS.largest; words >= WORDS.smallest; words--) {
    slide.style.setProperty("--words", `${words}px`);
    for (let code = CODE.largest; code >= CODE.smallest; code--) {
      slide.style.setProperty("--code", `${code}px`);
      if (fits()) return;
      if (!listings.length) break;
    }
  }
  if (slide.classList.contains("title") && overflows(slide)) slide.classList.add("crowded");
  if (listings.some((box) => box.scrollWidth > box.clientWidth)) slide.classList.add("wrapped");
  for (const box of listings) if (box.scrollHeight > box.clientHeight + 1) markCut(box);
}

function markCut(box) {
  const mark = document.createElement("p");
  mark.className = "more";
  mark.textContent = "↓";
  box.after(mark);
  const line = parseFloat(getComputedStyle(box.querySelector("pre")).lineHeight);
  const hidden = Math.ceil((box.scrollHeight - box.clientHeight) / line);
  mark.textContent = `↓ ${hidden} more line${hidden === 1 ? "" : "s"}: scroll here, or read the notebook`;
  box.classList.add("scrolls");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "Code that scrolls");
}

// The speaker view has no style that would hide a formula's second form, the one for screen readers.
function plainNotes() {
  for (const { typesetRoot: formula, math: tex } of MathJax.startup.document.math) {
    if (!formula.closest("aside.notes")) continue;
    formula.querySelector("mjx-assistive-mml")?.remove();
    const drawing = formula.querySelector("svg");
    drawing.removeAttribute("aria-hidden");
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", tex);
  }
}

function present() {
  plainNotes();
  document.querySelectorAll(".slides section[data-cell]").forEach(fit);
  // On paper reveal.js is "ready" before its pages are.
  Reveal.on(/print-pdf/.test(location.search) ? "pdf-ready" : "ready", () => page.classList.add("ready"));
  Reveal.initialize({
    ...STAGE, margin: 0, minScale: 0.2, maxScale: 4, center: false, display: "flex", navigationMode: "linear",
    controls: true, controlsLayout: "edges", controlsTutorial: false, progress: true, slideNumber: false, hash: true,
    transition: "none", backgroundTransition: "none", pdfSeparateFragments: false, pdfMaxPagesPerSlide: 1,
    // In a listing that scrolls these keys scroll; on a slider or a menu every key is its own.
    // (What the speaker's window sends has neither a key nor a target.)
    keyboardCondition: ({ key, target }) =>
      !target?.closest?.("form.moves") && !(SCROLLING.includes(key) && target?.closest?.(".scrolls")),
    plugins: [RevealNotes],
  });
  page.classList.remove("preparing");
}

// Who moves a slider with the mouse goes on with keys or a clicker: they are the deck's again.
document.querySelectorAll("form.moves input").forEach((slider) => slider.addEventListener("pointerup", () => slider.blur()));

const drawn = [...document.images].map((img) => img.decode().catch(() => {})); // a broken one is the checks' business
Promise.all([document.fonts.ready, MathJax.startup.promise, ...drawn]).then(() => MathJax.typesetPromise()).then(present);
