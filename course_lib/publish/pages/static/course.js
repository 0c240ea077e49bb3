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

// A fold is called by the words on it ("Show the code"), not by the one name that all folds were given.
document.querySelectorAll("details.hide > summary").forEach((summary) => summary.removeAttribute("aria-label"));
