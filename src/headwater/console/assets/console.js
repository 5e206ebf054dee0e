// Keyboard shortcuts, live reload and the live tail. Everything else works without JavaScript.
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

// Live reload, which pauses while the user has a panel open or is typing.

function isBusy(main) {
  const active = document.activeElement;
  return document.hidden
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
  startLive();
}

let timer = null;

function startLive() {
  const box = document.getElementById("live");
  if (box === null) return;
  box.checked = sessionStorage.getItem("live") === "on";
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

// Escape invisible characters, as html.visible does on the server.
const INVISIBLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

function visible(text) {
  return text.replace(INVISIBLE, (found) => {
    const code = found.charCodeAt(0).toString(16);
    return code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
  });
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
