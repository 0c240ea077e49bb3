// Sliders and menus that need no kernel: they choose among pictures that were drawn beforehand.
document.querySelectorAll("form.moves").forEach((form) => {
  const picture = form.parentElement.querySelector("img");
  const said = form.querySelector("[role=alert]");
  const frames = JSON.parse(form.querySelector("script").textContent);
  const controls = [...form.querySelectorAll("input, select")];
  const count = (control) => control.options?.length ?? Number(control.max) + 1;
  const chosen = () => frames[controls.reduce((at, control) => at * count(control) + Number(control.value), 0)];
  form.reset(); // a browser that comes back to a page keeps what was chosen; the still is the start
  const still = { src: picture.src, alt: picture.alt, width: Number(picture.getAttribute("width")) };
  const scale = still.width / (chosen().width ?? still.width); // a slide shows pictures larger than a page does

  const show = () => {
    const frame = chosen();
    for (const control of controls.filter((control) => control.dataset.shown)) {
      const shown = JSON.parse(control.dataset.shown)[control.value];
      control.nextElementSibling.value = shown;
      control.setAttribute("aria-valuetext", shown);
    }
    said.hidden = !frame.says;
    said.innerHTML = frame.says ?? "";
    picture.style.visibility = frame.says ? "hidden" : "";
    if (frame.src) Object.assign(picture, { src: frame.src, alt: frame.alt, width: Math.round(frame.width * scale) });
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  // Whoever reaches for a control will want its pictures: they come a little before they are asked for.
  form.addEventListener("pointerenter", () => frames.forEach(({ src }) => src && (new Image().src = src)), { once: true });
  // On paper nothing moves: it has the still.
  addEventListener("beforeprint", () => {
    Object.assign(picture, still);
    picture.style.visibility = "";
  });
  addEventListener("afterprint", show);
  form.hidden = false;
});
