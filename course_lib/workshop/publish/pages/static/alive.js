// Models that answer in the page: what a reader types is read and written on in a worker, by the files in alive/.
// Nothing of it is loaded before somebody asks. A page that was opened from disk may load scripts and nothing else, so
// the weights are a script too, and the worker is made of the text of functions.
globalThis.alive = { models: {}, workers: {} };
{
  const FOLDER = new URL("../alive/", document.currentScript.src);
  const PARTS = ["numbers", "attention", "recurrent", "tokenizers", "generate"]; // each may use those before it

  const loaded = (name) =>
    new Promise((done, failed) => {
      const script = Object.assign(document.createElement("script"), { src: new URL(`${name}.js`, FOLDER).href });
      script.addEventListener("load", done);
      script.addEventListener("error", () => failed(new Error(`${name}.js does not lie beside this page`)));
      document.head.append(script);
    });

  // A worker that keeps the model of that name: ask(question, heard) gives each of its answers to `heard`.
  const open = async (name) => {
    await Promise.all([...PARTS, "worker", name].map((file) => alive[file] ?? loaded(file)));
    const made = PARTS.map((part) => `Object.assign(parts, (${alive[part]})(parts));`).join("\n");
    const source = `const parts = {};\n${made}\n(${alive.worker})(parts);`;
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const worker = new Worker(address);
    let [run, hear] = [0, null];
    const ask = (question, heard = null) => {
      hear = heard;
      worker.postMessage({ ...question, run: ++run });
    };
    await new Promise((done, failed) => {
      worker.addEventListener("error", ({ message }) => failed(new Error(message || "the worker did not start")));
      ask({ ask: "load", stored: alive.models[name] }, done);
      worker.addEventListener("message", ({ data }) => (data.kind === "ready" || data.run === run) && hear?.(data));
    });
    delete alive.models[name]; // the worker has it
    URL.revokeObjectURL(address);
    return { ask };
  };
  alive.open = (name) => (alive.workers[name] ??= open(name));

  const visible = (text) => text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "␣");
  const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  // A matrix as a small picture, each value from 0 to 1 as much ink; `value(t, u)` gives one. Below zero it is `other`.
  const paint = (canvas, height, width, ink, value, other = ink) => {
    Object.assign(canvas, { width, height });
    const picture = new ImageData(width, height);
    const dots = new Uint32Array(picture.data.buffer);
    for (let at = 0; at < height * width; at++) {
      const one = value(Math.floor(at / width), at % width);
      dots[at] = (one < 0 ? other : ink) + ((255 * Math.abs(one)) << 24);
    }
    canvas.getContext("2d").putImageData(picture, 0, 0);
  };
  const inkOf = (element) => {
    const [red, green, blue] = getComputedStyle(element).color.match(/[\d.]+/g).map(Number);
    return red + (green << 8) + (blue << 16);
  };
  const frame = () => new Promise((go) => setTimeout(go)); // lets the page answer in between

  // The best answers, each in a row with its probability, and what it is drawn with where something is drawn.
  const showBest = (table, best, name = visible) => {
    const rows = best.map(({ text, own, drawn }) => {
      const row = make("tr", {}, make("th", { scope: "row" }, name(text)), make("td", {}, percent(own)));
      if (drawn !== undefined) row.append(make("td", {}, percent(drawn)));
      row.style.setProperty("--bar", drawn ?? own);
      return row;
    });
    table.replaceChildren(...rows);
  };
  const named = (best, name = visible) => best.map(({ text, own }) => `${name(text)} ${percent(own)}`).join(", ");

  // What every section has: a form that sleeps until its model is asked for. `rise` is called when it is awake.
  const rising = (section, rise) => {
    const [begin, form, said] = ["button.begin", "form", "[role=status]"].map((one) => section.querySelector(one));
    // What was there before the model: the picture drawn beforehand, or a sentence.
    const sleep = (asleep) => {
      for (const still of section.parentElement.children) still.classList.toggle("asleep", asleep && still !== section);
    };
    const fail = (error) => {
      if (begin) begin.hidden = true;
      form.hidden = true;
      sleep(false);
      said.textContent = `The model cannot answer here: ${error.message}. What is above stands for it.`;
    };
    let waking;
    const wake = () =>
      (waking ??= (async () => {
        said.textContent = "The model is being loaded.";
        try {
          const { script } = section.dataset;
          const own = script && (alive[script] ?? loaded(script));
          const models = await Promise.all([...section.dataset.model.split(" ").map(alive.open), own]);
          said.textContent = "";
          section.classList.add("awake");
          return models;
        } catch (error) {
          fail(error);
        }
      })());
    begin?.addEventListener("click", async () => {
      begin.disabled = true;
      if (!(await wake())) return;
      begin.hidden = true;
      form.hidden = false;
      sleep(true);
      rise();
    });
    section.hidden = false;
    if (!globalThis.Worker) fail(new Error("this browser gives a page no worker"));
    else if (!begin) {
      // A form without a button before it is open from the start, and its model comes when it is reached.
      form.hidden = false;
      sleep(true);
      form.addEventListener("focusin", wake, { once: true });
    }
    return { form, said, wake };
  };

  const writer = (section) => {
    const part = (selector) => section.querySelector(selector);
    const [typed, tokens, next, from] = [".typed", ".tokens", ".next", ".from"].map(part);
    let [text, soFar, read] = ["", "", null]; // what is asked about, the same with what was written, the last answer
    const { form, said, wake } = rising(section, () => {
      typed.focus();
      anew();
    });

    const knobs = () => {
      const all = [...form.querySelectorAll("[data-knob]")];
      return Object.fromEntries(all.map((one) => [one.dataset.knob, Number(one.value)]));
    };

    // What was read, token by token; for an attention model each as dark as the chosen one looks at it.
    const showTokens = () => {
      const { kind, values } = read.seen;
      const [T, at] = [read.tokens.length, Number(from?.value)];
      const head = Number(part(".heads input:checked")?.value);
      const looked = (u) => (kind === "attention" && u <= at ? values[(head * T + at) * T + u] : 0);
      const most = Math.max(...read.tokens.map((_, u) => looked(u))) || 1;
      const spans = read.tokens.map(({ text }, u) => {
        const span = make("span", { title: looked(u) ? percent(looked(u)) : "" }, text.replaceAll("\n", "⏎\n"));
        span.classList.toggle("written", u >= read.first);
        span.classList.toggle("looks", u === at);
        span.style.setProperty("--looked", looked(u) / most);
        return span;
      });
      tokens.replaceChildren(...spans);
      if (!from) return;
      from.nextElementSibling.value = visible(read.tokens[at].text);
      from.setAttribute("aria-valuetext", `token ${at + 1} of ${T}: ${visible(read.tokens[at].text)}`);
    };

    const showInside = async ({ kind, shape, values }) => {
      if (!part("canvas")) return;
      const ink = inkOf(part("canvas"));
      if (kind === "states") {
        const [T, H] = shape;
        return paint(part("canvas"), T, H, ink, (t, unit) => (1 + values[t * H + unit]) / 2);
      }
      const T = shape[2];
      Object.assign(from, { max: T - 1, value: T - 1 });
      for (const [n, canvas] of form.querySelectorAll(".heads canvas").entries()) {
        paint(canvas, T, T, ink, (t, u) => Math.sqrt(values[(n * T + t) * T + u]));
        if (n % 4 === 3) await frame();
        if (read.seen.values !== values) return; // there is a newer answer
      }
    };

    const show = (answer) => {
      showBest(next, answer.best);
      soFar = text + answer.written;
      if (answer.kind === "token")
        return tokens.replaceChildren(text, make("span", { className: "written" }, answer.written));
      [read, text] = [answer, soFar];
      form.classList.remove("busy");
      showInside(read.seen);
      showTokens();
      const whole = answer.start ? ", the last of more: it can read no longer text" : "";
      const likely = named(answer.best.slice(0, 3));
      said.textContent = `${answer.tokens.length} tokens read${whole}. Most likely next: ${likely}.`;
      if (answer.written) said.prepend(make("span", { className: "heard" }, `It wrote: ${answer.written}. `));
    };
    const ask = async (count) => {
      const [model] = (await wake()) ?? [];
      if (!model) return;
      form.classList.add("busy");
      model.ask({ ask: "read", text, knobs: knobs(), tokens: count }, show);
    };
    const take = () => ([text, soFar] = [typed.value || "\n", ""]); // nothing has no next token: so a new line begins
    const anew = () => {
      take();
      ask(0);
    };

    let waits;
    typed.addEventListener("input", () => {
      take();
      clearTimeout(waits);
      waits = setTimeout(anew, 120);
    });
    form.addEventListener("input", ({ target }) => {
      if (target.dataset.knob) {
        if (target.type === "range") target.nextElementSibling.value = target.value;
        text = soFar || text;
        ask(0);
      } else if (read && target !== typed) showTokens();
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(waits);
      if (!text) take();
      text = soFar || text;
      ask(Number(section.dataset.tokens));
    });
    part(".stop").addEventListener("click", () => {
      text = soFar || text;
      if (text) ask(0);
    });
    part(".again").addEventListener("click", anew);
  };

  // A small square that is drawn on, by mouse, finger, or by typing a letter, and read as a model's image.
  const reader = (section) => {
    const part = (selector) => section.querySelector(selector);
    const [paper, sheet, letter, next] = [".paper", ".sheet", ".letter", ".next"].map(part);
    const ink = paper.getContext("2d", { willReadFrequently: true });
    const side = paper.width;
    Object.assign(ink, { lineWidth: 2.4, lineCap: "round", lineJoin: "round" }); // as thick as the letters it has seen
    const clear = () => ink.clearRect(0, 0, side, side);
    let [waits, again] = [false, false]; // for an answer; whether something was drawn meanwhile
    const { form, said, wake } = rising(section, () => {
      letter.focus();
      write();
    });

    const show = (image, { best, seen }) => {
      waits = false;
      if (again) ask();
      showBest(next, best, String);
      const grid = Math.sqrt(seen.length);
      const most = Math.max(...seen);
      paint(sheet, grid, grid, inkOf(sheet), (row, column) => (0.6 * seen[row * grid + column]) / most);
      const drawn = image.some((value) => value > 0);
      const says = drawn ? "It reads" : "Nothing is drawn, and it answers all the same:";
      said.textContent = `${says} ${named(best.slice(0, 3), String)}.`;
    };
    const ask = async () => {
      again = waits;
      if (waits) return;
      waits = true;
      const dots = ink.getImageData(0, 0, side, side).data;
      const image = Float32Array.from({ length: side * side }, (_, n) => dots[4 * n + 3] / 255);
      (await wake())?.[0].ask({ ask: "look", image }, (answer) => show(image, answer));
    };
    const write = () => {
      clear();
      ink.font = `${section.dataset.size}px serif`;
      ink.textAlign = "center";
      ink.fillText(letter.value, side / 2, Number(section.dataset.baseline));
      ask();
    };

    const place = ({ offsetX, offsetY }) => [(offsetX * side) / paper.clientWidth, (offsetY * side) / paper.clientHeight];
    const line = (event) => {
      ink.lineTo(...place(event));
      ink.stroke();
      ask();
    };
    paper.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      paper.setPointerCapture(event.pointerId);
      ink.beginPath();
      ink.moveTo(...place(event));
      line(event); // a touch alone is a dot
    });
    paper.addEventListener("pointermove", (event) => paper.hasPointerCapture(event.pointerId) && line(event));
    letter.addEventListener("input", write);
    form.addEventListener("submit", (event) => event.preventDefault());
    part(".clear").addEventListener("click", () => {
      clear();
      ask();
    });
  };

  // A word that two networks say: how the first looks at its letters, sound by sound, and what the other makes of it.
  const speaker = (section) => {
    const part = (selector) => section.querySelector(selector);
    const [word, from, letters, map] = [".word", ".from", "thead", "tbody"].map(part);
    const longest = Number(section.dataset.longest);
    let heard = null; // the first network's answer
    const { form, said, wake } = rising(section, () => {
      word.focus();
      ask();
    });

    // The row of one sound stands out, and each letter is as dark as that sound looks at it.
    const choose = () => {
      const at = Number(from.value);
      const weights = heard.weights[at];
      [...map.rows].forEach((row, t) => row.classList.toggle("looks", t === at));
      [...letters.rows[0].cells].slice(1).forEach((cell, u) => cell.style.setProperty("--looked", weights[u]));
      const most = [...weights.keys()].sort((u, v) => weights[v] - weights[u]).slice(0, 3);
      const looks = most.map((u) => `${heard.word[u]} ${percent(weights[u])}`).join(", ");
      from.nextElementSibling.value = `${heard.sounds[at]} looks at ${looks}`;
      from.setAttribute("aria-valuetext", `${at + 1} of ${heard.sounds.length}: ${from.nextElementSibling.value}`);
    };
    const show = ([one, two]) => {
      heard = one;
      const heads = [...one.word].map((letter) => make("th", { scope: "col" }, letter));
      letters.replaceChildren(make("tr", {}, make("td"), ...heads));
      const rows = one.sounds.map((sound, t) => {
        const cells = [...one.weights[t]].map((weight) => make("td", { title: percent(weight) }));
        cells.forEach((cell, u) => cell.style.setProperty("--looked", one.weights[t][u]));
        const row = make("tr", {}, make("th", { scope: "row" }, sound), ...cells);
        row.addEventListener("click", () => choose((from.value = t)));
        return row;
      });
      map.replaceChildren(...rows);
      Object.assign(from, { max: rows.length - 1, value: 0, disabled: !rows.length });
      if (rows.length) choose();
      const told = (answer) => answer.sounds.join(" ") || "nothing";
      said.textContent = `Said with attention: ${told(one)}. With one vector between reading and writing: ${told(two)}.`;
      if (!one.word) said.textContent = "Type a word of letters, a to z.";
    };
    const ask = async () => {
      const models = (await wake())?.slice(0, 2);
      const typed = word.value.toLowerCase().replace(/[^a-z]/g, "");
      const asked = (model) => new Promise((done) => model.ask({ ask: "say", word: typed, longest }, done));
      if (models) show(await Promise.all(models.map(asked)));
    };
    word.addEventListener("input", ask);
    from.addEventListener("input", choose);
    form.addEventListener("submit", (event) => event.preventDefault());
  };

  // A page that opens a model has a script of its own, and begins at once.
  const opener = (section) => {
    const { form, said, wake } = rising(section, async () => {
      const [model] = await wake();
      alive[section.dataset.script](section, { model, form, said, make, paint, inkOf, percent, visible, named });
    });
    const begin = section.querySelector(".begin");
    if (!begin.hidden) begin.click();
  };

  const kind = ({ dataset }) => (dataset.script ? opener : dataset.size ? reader : dataset.longest ? speaker : writer);
  for (const section of document.querySelectorAll("section.alive")) kind(section)(section);
}
