// Questions that a page answers itself: every option, right or wrong, has its reason.
document.querySelectorAll("form.quiz").forEach((form) => {
  const { correct, reasons } = JSON.parse(form.querySelector("script").textContent);
  const verdict = form.querySelector("[role=status]");
  const say = (kind, words) => Object.assign(verdict, { className: kind, innerHTML: words });
  form.reset();
  form.addEventListener("change", () => say("", "")); // a verdict on one option must not stand beside another
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = form.querySelector("input:checked");
    if (!chosen) say("open", "○ Choose an answer first.");
    else if (Number(chosen.value) === correct) say("good", `✓ <b>Right.</b> ${reasons[correct]}`);
    else say("bad", `✗ <b>Not this one.</b> ${reasons[chosen.value]} Try another answer.`);
  });
  form.previousElementSibling.hidden = true; // the still
  form.hidden = false;
});
