// Keyboard shortcuts, charts, colours, live reload and the live tail. Everything else works without JavaScript.
//
// Records are untrusted. Texts are inserted as textContent only, never as HTML, and reloaded pages
// are parsed with DOMParser, which does not run scripts.
"use strict";

document.documentElement.classList.add("has-script");

const RELOAD_MS = 5000;
const TAIL_MAX = 500;

function isTyping(target) {
  return target.closest("input, textarea, select") !== null;
}

// Escape invisible characters, as html.visible does on the server.
const INVISIBLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

function visible(text) {
  return text.replace(INVISIBLE, (found) => {
    const code = found.charCodeAt(0).toString(16);
    return code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
  });
}

// Keyboard shortcuts.

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const where = {
    "/": () => document.getElementById("search")?.focus(),
    "?": () => document.getElementById("keys").showModal(),
    n: () => document.querySelector("a[rel=next]")?.click(),
    p: () => document.querySelector("a[rel=prev]")?.click(),
  };
  for (const link of document.querySelectorAll("aside a[data-key]")) {
    where[link.dataset.key] = () => link.click();
  }
  if (event.key in where && !document.querySelector("dialog[open]")) {
    event.preventDefault();
    where[event.key]();
  }
});

// The button of a destructive form is enabled only when the right name has been typed.

function watchConfirmations(root) {
  for (const field of root.querySelectorAll("[data-confirms]")) {
    const button = field.form.querySelector("button.danger");
    const check = () => { button.disabled = field.value !== field.dataset.confirms; };
    field.addEventListener("input", check);
    check();
  }
}
watchConfirmations(document);

// Pages show times in UTC; the tooltip adds the browser's local time.

function localTime(text) {
  const moment = new Date(text);
  return isNaN(moment) ? "UTC" : `UTC; local ${moment.toLocaleString(undefined, { timeZoneName: "short" })}`;
}

function addLocalTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) time.title = localTime(time.dateTime);
}
addLocalTimes(document);

// Charts: a line under the pointer, or moved with the arrow keys, and the values there.

function watchCharts(root) {
  for (const drawing of root.querySelectorAll("svg[data-chart]")) watchChart(drawing);
}

function watchChart(drawing) {
  const data = JSON.parse(drawing.dataset.chart);
  const box = drawing.viewBox.baseVal;
  const readout = drawing.closest(".chart").querySelector(".readout");
  const cursor = document.createElementNS(drawing.namespaceURI, "path");
  cursor.setAttribute("class", "cursor");
  drawing.append(cursor);
  let chosen = null;

  function show(index) {
    chosen = index;
    cursor.setAttribute("d", `M${data.x[index]} 0V${box.height}`);
    const values = data.lines.map((line) =>
      data.lines.length === 1 ? line.texts[index] : `${visible(line.name)} ${line.texts[index]}`);
    readout.textContent = `${data.at[index]}: ${values.join(", ")}`;
  }
  function hide() {
    chosen = null;
    cursor.setAttribute("d", "");
    readout.textContent = "";
  }
  drawing.addEventListener("pointermove", (event) => {
    const place = drawing.getBoundingClientRect();
    const x = (event.clientX - place.left) / place.width * box.width;
    let nearest = 0;
    data.x.forEach((each, index) => {
      if (Math.abs(each - x) < Math.abs(data.x[nearest] - x)) nearest = index;
    });
    show(nearest);
  });
  drawing.addEventListener("pointerleave", hide);
  drawing.addEventListener("blur", hide);
  drawing.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const last = data.x.length - 1;
    show(Math.min(Math.max((chosen ?? last) + step, 0), last));
  });
}
watchCharts(document);

// The colour scheme: the browser's, or the one chosen here. The server reads the cookie, so that
// the next page has it from the start.

const SCHEMES = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");

function showTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  themeButton.textContent = `Colours: ${theme}`;
}
themeButton.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "auto";
  const next = SCHEMES[(SCHEMES.indexOf(now) + 1) % SCHEMES.length];
  document.cookie = `theme=${next}; path=/; max-age=31536000; SameSite=Strict`;
  showTheme(next);
});
showTheme(document.documentElement.dataset.theme ?? "auto");

// Live reload, which pauses while the user has a panel open or is typing.

function isBusy(main) {
  const active = document.activeElement;
  return document.hidden
    || main.querySelector("svg[data-chart]:hover, svg[data-chart]:focus") !== null
    || main.querySelector("details[open]:not([data-open])") !== null
    || (active !== null && main.contains(active) && isTyping(active) && active.id !== "live");
}

async function reload() {
  const main = document.getElementById("main");
  if (isBusy(main)) return;
  const address = new URL(location.href);
  address.searchParams.delete("done");
  let text;
  try {
    text = await (await fetch(address, { headers: { Accept: "text/html" } })).text();
  } catch {
    return; // The console does not answer; try again at the next interval.
  }
  const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("main");
  if (fresh === null || isBusy(main)) return;
  const position = main.querySelector(".scroll")?.scrollLeft ?? 0;
  main.replaceChildren(...fresh.childNodes);
  addLocalTimes(main);
  const scroll = main.querySelector(".scroll");
  if (scroll !== null) scroll.scrollLeft = position;
  watchConfirmations(main);
  watchCharts(main);
  startLive();
}

let timer = null;

function startLive() {
  const box = document.getElementById("live");
  if (box === null) return;
  box.checked = (sessionStorage.getItem("live") ?? box.dataset.default) === "on";
  box.addEventListener("change", () => {
    sessionStorage.setItem("live", box.checked ? "on" : "off");
    setTimer(box.checked);
  });
  setTimer(box.checked);
}

function setTimer(isOn) {
  clearInterval(timer);
  timer = isOn ? setInterval(reload, RELOAD_MS) : null;
}

startLive();

// The live tail.

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function preview(part) {
  if (part.format === "null" || part.size_bytes === 0) {
    return make("em", "quiet", part.format === "null" ? "null" : "empty");
  }
  let text = part.text.slice(0, 320);
  if (part.format === "hex") text = text.split("\n", 1)[0].slice(10);
  return make("code", "", visible(text.split(/\s+/).join(" ").slice(0, 160)));
}

function part(name, shown) {
  const box = make("div", "part");
  const heading = make("h3", "", `${name} `);
  heading.append(make("span", "badge", shown.format));
  if (shown.note) heading.append(" ", make("span", "warn-text", visible(shown.note)));
  box.append(heading);
  if (shown.format !== "null") box.append(make("pre", shown.format, visible(shown.text)));
  if (shown.is_cut) box.append(make("p", "quiet", "Truncated; open the record to see more."));
  return box;
}

function headers(record) {
  const box = make("div", "part");
  box.append(make("h3", "", "Headers"));
  for (const header of record.headers) {
    const line = make("p", "value");
    line.append(make("code", "", visible(header.name)), " ");
    line.append(make("code", "quiet", header.value.format === "null" ? "null" : visible(header.value.text)));
    if (header.value.is_cut) line.append("… (truncated)");
    box.append(line);
  }
  return box;
}

function timeText(timestamp) {
  if (timestamp === null || Math.abs(timestamp) > 8.64e15) return "–";
  return new Date(timestamp).toISOString().replace("T", " ").replace("Z", "");
}

function row(record, recordsPath) {
  const line = make("summary");
  line.append(make("span", "place", `${record.partition}:${record.offset}`));
  const when = make("span", "when", timeText(record.timestamp_ms));
  if (record.timestamp_ms !== null) when.title = localTime(record.timestamp_ms);
  line.append(when);
  for (const name of ["key", "value"]) {
    const cell = make("span", name);
    cell.append(preview(record[name]));
    line.append(cell);
  }
  const link = make("a", "", "Open record");
  link.href = `${recordsPath}/${record.partition}/${record.offset}`;
  const content = make("div");
  content.append(part("Key", record.key), part("Value", record.value));
  if (record.headers.length) content.append(headers(record));
  content.append(link);
  const details = make("details");
  details.append(line, content);
  const item = make("li", "new");
  item.append(details);
  return item;
}

function startTail(list) {
  const state = document.getElementById("tail-state");
  const pause = document.getElementById("tail-pause");
  const source = new EventSource(list.dataset.source);
  let isPaused = false, shown = 0, skipped = 0, paused = [];

  function showState(text) {
    const left = skipped ? `, ${skipped} skipped` : "";
    const held = isPaused && paused.length ? `, ${paused.length} paused` : "";
    state.textContent = text ?? `following: ${shown} records${left}${held}`;
  }
  function show(records) {
    for (const record of records) list.prepend(row(record, list.dataset.topic));
    shown += records.length;
    while (list.childElementCount > TAIL_MAX) list.lastElementChild.remove();
  }
  source.addEventListener("ready", () => showState());
  source.addEventListener("records", (event) => {
    const data = JSON.parse(event.data);
    skipped += data.skipped;
    if (isPaused) {
      paused = paused.concat(data.records).slice(-TAIL_MAX);
    } else {
      show(data.records);
    }
    showState();
  });
  source.addEventListener("failed", (event) => {
    source.close();
    showState(`ended: ${JSON.parse(event.data).message}`);
  });
  source.addEventListener("ended", (event) => {
    source.close();
    showState(`ended after ${JSON.parse(event.data).minutes} minutes; reload the page to continue`);
  });
  source.addEventListener("error", () => {
    const isClosed = source.readyState === EventSource.CLOSED;
    showState(isClosed ? "not connected: too many live tails are open, or the console is down" : "connecting…");
  });
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? "Resume" : "Pause";
    if (!isPaused) {
      show(paused);
      paused = [];
    }
    showState();
  });
  document.getElementById("tail-clear").addEventListener("click", () => list.replaceChildren());
}

const tail = document.getElementById("tail");
if (tail !== null) startTail(tail);
