// The page that opens a GPT. Each number has data-from, the name of its origin, and shows it when it is asked.
alive.inside = (section, { model, form, said, make, paint, inkOf, percent, visible, named }) => {
  const part = (selector) => section.querySelector(selector);
  const all = (selector) => [...section.querySelectorAll(selector)];
  const [typed, chips, knob, panel, asked] = [".typed", ".chips", "[data-knob]", ".panel", ".asked"].map(part);
  const WIDE = 160; // numbers in a row of a strip
  const MOST = 16; // places that are looked at, in the table
  let [drawn, answer] = [[], null]; // ids that were drawn behind the text, what the model said last

  const plain = (value, digits = Math.abs(value) < 100 ? 2 : 1) => value.toFixed(digits).replace("-", "−");
  const length = (vector) => Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  const rootOf = (vector) => `length ${plain(length(vector))}, the root of the sum of ${vector.length} squares`;
  const chosen = (name) => Number(part(`[name="${name}"]:checked`)?.value ?? 0);

  // Where a number comes from stands in the panel.
  const tell = (one) => {
    all(".asking").forEach((other) => other.classList.remove("asking"));
    one.classList.add("asking");
    const origin = document.getElementById(`from-${one.dataset.from}`);
    const copies = [...origin.children].map((child) => child.cloneNode(true));
    asked.replaceChildren(make("p", { className: "here" }, one.here?.() ?? ""), ...copies);
    panel.hidden = false;
  };
  const close = () => {
    panel.hidden = true;
    part(".asking")?.focus();
    all(".asking").forEach((one) => one.classList.remove("asking"));
  };
  const number = (tag, from, text, here) => {
    const one = make(tag, { className: "number", here }, text);
    one.dataset.from = from;
    return one;
  };
  // Of a table's numbers Tab reaches one, and the arrows the others.
  const table = (body, rows) => {
    body.replaceChildren(...rows);
    const cells = [...body.querySelectorAll("td.number")];
    cells.forEach((cell, n) => (cell.tabIndex = n ? -1 : 0));
  };
  const step = (cell, key) => {
    const back = key === "ArrowLeft" || key === "ArrowUp";
    const beside = (one) => (back ? one.previousElementSibling : one.nextElementSibling);
    const next = /Left|Right/.test(key) ? beside(cell) : beside(cell.parentElement)?.cells[cell.cellIndex];
    if (!next?.matches(".number")) return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  };

  // A vector is a strip of colours, its length beside it.
  const shape = ({ length }) => [Math.ceil(length / WIDE), Math.min(WIDE, length)];
  const point = (strip, at) => {
    const { vector } = strip;
    strip.at = Math.max(0, Math.min(vector.length - 1, at));
    const [height, width] = shape(vector);
    const [x, y] = [(strip.at % WIDE) / width, Math.floor(strip.at / WIDE) / height];
    const field = { x, y, wide: 1 / width, high: 1 / height };
    for (const [name, value] of Object.entries(field)) strip.style.setProperty(`--${name}`, value);
  };
  const showVectors = () => all("[data-vector]").forEach((row) => {
    const { vector: name } = row.dataset;
    const vector = answer.vectors[name];
    const [strip, whole] = [row.querySelector(".strip"), row.querySelector(".number")];
    const [height, width] = shape(vector);
    const most = Math.max(...vector.map(Math.abs)) || 1;
    const [above, below] = [".above", ".below"].map((sign) => inkOf(part(sign)));
    paint(strip.firstElementChild, height, width, above, (t, u) => vector[t * width + u] / most, below);
    strip.vector = vector;
    strip.here = () => `Number ${strip.at + 1} of ${vector.length}: ${plain(vector[strip.at], 3)}`;
    point(strip, strip.at ?? 0);
    whole.textContent = plain(length(vector));
    whole.here = () => rootOf(vector);
    const from = name !== "x" ? name : chosen("block") ? "after" : "embedded"; // x was made before the block
    for (const one of [strip, whole]) one.dataset.from = from;
  });

  const showChips = () => {
    const labels = answer.tokens.map(({ id, text }, t) => {
      const box = make("input", { type: "radio", name: "place", value: t, checked: t === answer.t });
      const className = t < answer.first ? "" : "written";
      return make("label", { className }, box, make("span", {}, visible(text)), make("small", {}, `${id}`));
    });
    const had = chips.contains(document.activeElement);
    chips.replaceChildren(...labels);
    const label = labels[answer.t];
    if (had) label.firstChild.focus();
    chips.scrollTop = label.offsetTop - chips.clientHeight / 2;
  };
  const showHead = () => {
    const { t, tokens, scores, weights } = answer;
    const sum = scores.reduce((total, score) => total + Math.exp(score), 0);
    const looks = `${visible(tokens[t].text)} looks at`;
    const d = answer.vectors.q.length;
    const mostFirst = [...scores.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, MOST);
    const rows = mostFirst.map((u) => {
      const [score, name] = [scores[u], `${visible(tokens[u].text)} (${u + 1})`];
      const power = `e^${plain(score)} = ${plain(Math.exp(score), 3)}`;
      const row = make("tr", {}, make("th", { scope: "row" }, name),
        number("td", "score", plain(score), () => `${looks} ${name}: q · k = ${plain(score * d ** 0.5)}, over √${d}`),
        number("td", "weight", percent(weights[u]), () => `${looks} ${name}: ${power} of ${plain(sum, 3)}`));
      row.style.setProperty("--bar", weights[u]);
      return row;
    });
    table(part(".found tbody"), rows);
  };
  const showMaps = () => {
    const [, H, T] = answer.seen.shape;
    const values = answer.seen.values.subarray(chosen("block") * H * T * T);
    const share = (h) => (t, u) => Math.sqrt(values[(h * T + t) * T + u]);
    all(".heads canvas").forEach((canvas, h) => paint(canvas, T, T, inkOf(canvas), share(h)));
  };
  const showStream = () => {
    const kinds = [["attention", "attended", "between"], ["feed-forward", "thought", "after"]];
    const sums = [{ name: "token and place", from: "embedded", sum: answer.vectors.embedded }];
    answer.parts.forEach((one, n) => {
      const [kind, of, from] = kinds[n % 2];
      sums.push({ ...one, of, from, name: `block ${Math.floor(n / 2) + 1}, ${kind}` });
    });
    const most = Math.max(...sums.map(({ sum }) => length(sum)));
    const rows = sums.map(({ name, of, from, adds, sum }, n) => {
      const told = (vector) => () => `${name}: ${rootOf(vector)}`;
      const added = adds ? number("td", of, plain(length(adds)), told(adds)) : make("td");
      const whole = number("td", from, plain(length(sum)), told(sum));
      const row = make("tr", {}, make("th", { scope: "row" }, name), added, whole);
      row.style.setProperty("--bar", length(sum) / most);
      row.classList.toggle("opened", n > 0 && Math.floor((n - 1) / 2) === chosen("block"));
      return row;
    });
    table(part(".stream tbody"), rows);
  };
  const showNext = () => {
    const rows = answer.best.map(({ text, logit, own, drawn: share }) => {
      const name = visible(text);
      const row = make("tr", {}, make("th", { scope: "row" }, name),
        number("td", "logit", plain(logit), () => `${name}: ${plain(logit, 3)}`),
        number("td", "own", percent(own), () => `${name}: ${percent(own)}`),
        number("td", "drawn", percent(share), () => `${name}, at temperature ${knob.value}: ${percent(share)}`));
      row.style.setProperty("--bar", share);
      return row;
    });
    table(part(".nexts tbody"), rows);
    if (!answer.chance) return;
    const { text, low, high, random: r } = answer.chance;
    const name = visible(text);
    const span = `the numbers from ${plain(low, 4)} to ${plain(high, 4)}`;
    const random = number("button", "random", plain(r, 4), () => `${name} has ${span}`);
    random.type = "button";
    part(".chance").replaceChildren("The random number ", random, ` draws ${name}`);
  };
  const show = async (found) => {
    answer = found;
    const name = visible(answer.tokens[answer.t].text);
    for (const one of all(".whose")) one.textContent = name;
    const head = `block ${chosen("block") + 1}, head ${chosen("head") + 1}`;
    part(".which").textContent = head;
    for (const some of [showChips, showVectors, showHead, showMaps, showStream, showNext]) {
      some();
      await new Promise((go) => requestAnimationFrame(() => setTimeout(go))); // each is drawn before the next
      if (answer !== found) return; // there is a newer one
    }
    form.classList.remove("busy");
    if (part(".asking")) tell(part(".asking"));
    else panel.hidden = true; // the number that was asked is gone
    const most = answer.weights.indexOf(Math.max(...answer.weights));
    const likely = named(answer.best.slice(0, 3));
    said.textContent = `Token ${answer.t + 1} of ${answer.tokens.length}, ${name}, looks most at`
      + ` ${visible(answer.tokens[most].text)} in ${head}. Most likely next: ${likely}.`;
    if (answer.chance) said.prepend(`Drawn: ${visible(answer.chance.text)}. `);
  };
  const ask = (place = null, draw = false) => {
    form.classList.add("busy");
    const knobs = { temperature: Number(knob.value) };
    const question = { text: typed.value, drawn, draw, place, block: chosen("block"), head: chosen("head"), knobs };
    model.ask({ ask: "inside", ...question }, (found) => {
      if (found.chance) drawn = [...drawn, found.chance.id];
      show(found);
    });
  };
  const anew = () => {
    drawn = [];
    part(".chance").replaceChildren();
    ask();
  };

  let waits;
  typed.addEventListener("input", () => {
    clearTimeout(waits);
    waits = setTimeout(anew, 150);
  });
  form.addEventListener("input", ({ target }) => {
    if (target === typed) return;
    if (target.dataset.knob) target.nextElementSibling.value = target.value;
    ask(chosen("place"));
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(waits);
    ask(null, true);
  });
  part(".again").addEventListener("click", anew);
  part(".close").addEventListener("click", close);
  form.addEventListener("click", ({ target, offsetX, offsetY, detail }) => {
    const one = target.closest("[data-from]");
    if (!one) return;
    if (one.vector && detail) {
      const [height, width] = shape(one.vector);
      const row = Math.floor((offsetY / one.clientHeight) * height); // a key has no place, a pointer has
      point(one, row * WIDE + Math.floor((offsetX / one.clientWidth) * width));
    }
    tell(one);
  });
  section.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (key === "Escape" && !panel.hidden) return close();
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -WIDE, ArrowDown: WIDE }[key];
    if (target.matches("td.number")) {
      if (by) step(target, key);
      else if (key === "Enter" || key === " ") tell(target);
      else return;
    } else if (target.vector && by) {
      point(target, target.at + by);
      tell(target);
    } else return;
    event.preventDefault();
  });
  ask();
};
