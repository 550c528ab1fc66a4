// Everything here is an addition: without this file the pages show all their content, unfiltered.
"use strict";

// Scripts of data, loaded when they are needed. Unlike fetch, script elements work from a file.
const root = () => document.body.dataset.root;
const loaded = new Map();

function load(name) {
  if (!loaded.has(name)) {
    loaded.set(name, new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = root() + name;
      script.addEventListener("load", resolve);
      script.addEventListener("error", reject);
      document.head.append(script);
    }));
  }
  return loaded.get(name);
}

const runs = new Map();
let questions = [];
window.gradclipRun = (slug, run) => runs.set(slug, run);
window.gradclipQuestions = (found) => { questions = found; };

// Text only: nothing from a record is ever parsed as HTML.
function element(name, text, properties) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  return Object.assign(made, properties);
}

// The state of filters is kept in the address, as #?name=value, so that it can be shared.
function readState() {
  const hash = location.hash;
  return new URLSearchParams(hash.startsWith("#?") ? hash.slice(2) : "");
}

function writeState(form) {
  const state = new URLSearchParams();
  for (const control of form.elements) {
    if (control.name && control.value) state.set(control.name, control.value);
  }
  const text = state.toString();
  history.replaceState(null, "", text ? `#?${text}` : location.pathname + location.search);
}

function startFilters() {
  for (const form of document.querySelectorAll("form[data-filters]")) {
    const apply = { matrix: filterMatrix, findings: filterFindings, rows: filterRows }[form.dataset.filters];
    const state = readState();
    let known = false;
    for (const control of form.elements) {
      if (control.name && state.has(control.name)) {
        control.value = state.get(control.name);
        known = true;
      }
    }
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => {
      apply(form);
      writeState(form);
    });
    form.classList.add("ready");
    if (known) apply(form);
  }
}

function words(control) {
  return control ? control.value.toLowerCase().split(/\s+/).filter(Boolean) : [];
}

function holds(text, wanted) {
  return wanted.every((word) => text.includes(word));
}

function filterMatrix(form) {
  const { differ, frameworks } = form.elements;
  const wanted = words(frameworks);
  const table = document.querySelector("table.matrix");
  const heads = [...table.tHead.rows[0].cells];
  const shown = heads.map((head, i) => i === 0 || holds(head.textContent.toLowerCase(), wanted));
  let rows = 0;
  heads.forEach((head, i) => { head.hidden = !shown[i]; });
  for (const row of table.tBodies[0].rows) {
    const cells = [...row.cells];
    cells.forEach((cell, i) => { cell.hidden = !shown[i]; });
    const answers = cells.filter((cell, i) => i > 0 && shown[i]);
    const differs = new Set(answers.map((cell) => cell.textContent.trim())).size > 1;
    const broken = answers.some((cell) => cell.querySelector(".broken"));
    row.hidden = (differ.value === "differ" && !differs) || (differ.value === "broken" && !broken);
    rows += row.hidden ? 0 : 1;
  }
  const empty = rows === 0 || shown.filter(Boolean).length === 1;
  document.querySelector(".none").hidden = !empty;
}

function filterFindings(form) {
  const { text, severity, standing } = form.elements;
  const wanted = words(text);
  let count = 0;
  const articles = document.querySelectorAll("article.finding");
  for (const one of articles) {
    const data = one.dataset;
    const fits = holds(data.text, wanted)
      && (!severity.value || data.severity === severity.value)
      && (!standing.value || data.standing === standing.value);
    one.hidden = !fits;
    document.querySelector(`.toc [data-for="${one.id}"]`).hidden = !fits;
    count += fits ? 1 : 0;
  }
  form.querySelector(".count").textContent = `${count} of ${articles.length}`;
  document.querySelector(".none").hidden = count > 0;
}

function filterRows(form) {
  const table = document.getElementById(form.dataset.table);
  const wanted = words(form.elements.text);
  const choices = [...form.elements].filter((control) => control.name && control.name !== "text" && control.value);
  let count = 0;
  const rows = table.tBodies[0].rows;
  for (const row of rows) {
    const fits = holds(row.dataset.text, wanted)
      && choices.every((control) => row.dataset[control.name].split(" ").includes(control.value));
    row.hidden = !fits;
    count += fits ? 1 : 0;
  }
  form.querySelector(".count").textContent = `${count} of ${rows.length}`;
  const none = document.querySelector(".none");
  if (none) none.hidden = count > 0;
}

function startCopying() {
  for (const button of document.querySelectorAll("button.copy")) startCopy(button);
}

function startCopy(button) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      // Without a clipboard, as in a file in some browsers, select the text.
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

// Compare two runs. Each has its script of data.
function startComparing() {
  const form = document.getElementById("compare");
  if (!form) return;
  const { from, to, operation } = form.elements;
  form.hidden = false;
  document.getElementById("no-script").hidden = true;
  const read = () => {
    const names = decodeURIComponent(location.hash.slice(1)).split("..");
    const known = (select, name) => [...select.options].some((option) => option.value === name);
    if (known(from, names[0])) from.value = names[0];
    if (known(to, names[1])) to.value = names[1];
    // The address may name only where the reader comes from. Then the other framework of the opening pair is offered.
    else if (to.value === from.value) {
      const others = [...from.options].filter((option) => option.value !== from.value);
      const other = others.find((option) => option.defaultSelected) ?? others[0];
      if (other) to.value = other.value;
    }
    if (names[2] !== undefined && known(operation, names[2])) operation.value = names[2];
  };
  const show = async () => {
    const [one, two] = [from.value, to.value];
    await Promise.all([load("data/questions.js"), load(`data/${one}.js`), load(`data/${two}.js`)]);
    // While the data was loaded, the reader may have chosen again; the new choice shows its own comparison.
    if (one === from.value && two === to.value) compare(runs.get(one), runs.get(two), one, two, operation.value);
  };
  const change = () => {
    const parts = [from.value, to.value, ...(operation.value ? [operation.value] : [])];
    history.replaceState(null, "", `#${parts.join("..")}`);
    show();
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", change);
  document.getElementById("swap").addEventListener("click", () => {
    [from.value, to.value] = [to.value, from.value];
    change();
  });
  window.addEventListener("hashchange", () => { read(); show(); });
  read();
  show();
}

function answerCell(run, slug, question, answers, label) {
  const [standing, text] = answers;
  const link = element("a", undefined, { href: `framework/${slug}.html#q-${question}`, className: `answer ${standing}` });
  link.append(element("span", run.glyphs[standing], { className: `glyph ${standing}` }), ` ${text}`);
  const cell = element("td");
  cell.dataset.label = label;
  cell.append(link);
  return cell;
}

function table(heads, rows) {
  const made = element("table", undefined, { className: "stacked" });
  const head = made.createTHead().insertRow();
  heads.forEach((text) => head.append(element("th", text, { scope: "col" })));
  made.createTBody().append(...rows);
  return made;
}

function listFindings(run, slug, findings) {
  const list = element("ul");
  for (const one of findings) {
    const item = element("li");
    item.append(
      element("span", one.severity, { className: `badge sev-${one.severity}` }), " ",
      element("a", one.heading, { href: `framework/${slug}.html#${one.anchor}` }), " ",
      element("span", one.standing, { className: "quiet" }),
    );
    list.append(item);
  }
  return list;
}

function listRules(rules) {
  const list = element("ul", undefined, { className: "columns" });
  for (const rule of rules) {
    const item = element("li");
    const link = element("a", undefined, { href: `rule/${rule.replace(/[^a-z0-9]+/g, "-")}.html` });
    link.append(element("code", rule));
    item.append(link);
    list.append(item);
  }
  return list;
}

function section(parts, title, content, empty) {
  parts.push(element("h2", title));
  parts.push(content && content.childElementCount ? content : element("p", empty));
}

// The table of both formulas, for the chosen operation or the first one that both have.
function compareFormulas(first, second, operation, names) {
  const shared = Object.keys(first.formulas).find((name) => name in second.formulas && (!operation || name === operation));
  if (!shared) return [];
  const rows = Object.entries(first.formulas[shared]).map(([label, text]) => {
    const made = element("tr");
    const other = second.formulas[shared][label];
    const cells = [text, text === other ? "the same" : other].map((words) => element("td", words));
    cells.forEach((cell, i) => { cell.dataset.label = names[i]; });
    made.append(element("th", label, { scope: "row" }), ...cells);
    return made;
  });
  return [element("h2", "The formulas"), table(["c: threshold, n: norm", ...names], rows)];
}

function compare(first, second, slugOne, slugTwo, operation) {
  const parts = [];
  const names = first.heading === second.heading
    ? [`${first.heading}, ${first.date}`, `${second.heading}, ${second.date}`] : [first.heading, second.heading];
  const differing = questions.filter(({ id }) => first.answers[operation][id].join() !== second.answers[operation][id].join());
  document.getElementById("verdict").textContent = slugOne === slugTwo
    ? "Choose two different runs."
    : `From ${names[0]} to ${names[1]}: ${differing.length} of ${questions.length} questions are answered differently.`;
  const row = ({ id, text }) => {
    const made = element("tr");
    made.append(
      element("th", text, { scope: "row" }),
      answerCell(first, slugOne, id, first.answers[operation][id], names[0]),
      answerCell(second, slugTwo, id, second.answers[operation][id], names[1]),
    );
    return made;
  };
  parts.push(...compareFormulas(first, second, operation, names));
  if (differing.length) parts.push(element("h2", "Answered differently"), table(["Question", ...names], differing.map(row)));
  const alike = questions.filter((one) => !differing.includes(one));
  if (alike.length) {
    const details = element("details");
    details.append(element("summary", `${alike.length} answered alike`), table(["Question", ...names], alike.map(row)));
    parts.push(details);
  }
  const missing = (run, other) => run.findings.filter((one) => !other.findings.some((its) => its.heading === one.heading));
  section(parts, `Only ${names[0]} shows`, listFindings(first, slugOne, missing(first, second)), "Nothing.");
  section(parts, `Only ${names[1]} shows`, listFindings(second, slugTwo, missing(second, first)), "Nothing.");
  const kept = (run, rule) => run.rules[rule] === "kept";
  const broken = (run, rule) => run.rules[rule] === "broken";
  const rules = Object.keys(first.rules);
  section(parts, `Kept by ${names[0]}, broken by ${names[1]}`,
    listRules(rules.filter((rule) => kept(first, rule) && broken(second, rule))), "No rule.");
  section(parts, `Broken by ${names[0]}, kept by ${names[1]}`,
    listRules(rules.filter((rule) => broken(first, rule) && kept(second, rule))), "No rule.");
  parts.push(element("p", "Case by case, with the smallest input of each difference:", { className: "label" }));
  const code = element("pre", undefined, { tabIndex: 0, className: "command", ariaLabel: "the command" });
  code.append(element("code", `gradclip diff ${first.record} ${second.record}`));
  const button = element("button", "Copy", { type: "button", className: "copy", ariaLabel: "Copy: the command" });
  const copied = element("div", undefined, { className: "copied" });
  copied.append(code, button);
  startCopy(button);
  parts.push(copied);
  document.getElementById("compared").replaceChildren(...parts);
}

document.addEventListener("DOMContentLoaded", () => {
  startFilters();
  startCopying();
  startComparing();
});
