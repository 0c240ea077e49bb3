// The theme opens its side bars on narrow pages by labels, which no key reaches: make them buttons.
document.querySelectorAll("label.nav-overlay-icon, label.toc-overlay-icon").forEach((label) => {
  const box = document.getElementById(label.htmlFor);
  label.setAttribute("role", "button");
  label.setAttribute("aria-label", box.getAttribute("aria-label"));
  label.tabIndex = 0;
  const tell = () => label.setAttribute("aria-expanded", box.checked);
  box.addEventListener("change", tell);
  tell();
  label.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      box.click();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && box.checked) {
      box.click();
      label.focus();
    }
  });
});

// A tap on a link of "On this page" leads to its place, and uncovers it.
document.querySelector(".toc-drawer").addEventListener("click", (event) => {
  const box = document.getElementById("__toc");
  if (box.checked && event.target.closest("a")) box.click();
});

// On a narrow page a figure scrolls, and nothing that stands with it does: neither words nor controls.
document.querySelectorAll(".cell_output img").forEach((picture) => {
  const box = document.createElement("div");
  box.className = "scrolls";
  picture.style.setProperty("--drawn", picture.getAttribute("width")); // in pixels, where all of it has room
  picture.replaceWith(box);
  box.append(picture);
});

// A fold is called by the words on it ("Show the code"), not by the one name that all folds were given.
document.querySelectorAll("details.hide > summary").forEach((summary) => summary.removeAttribute("aria-label"));
