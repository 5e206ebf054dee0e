// What pages do beyond links and forms: keys, reloading, the live tail. All else works without.
//
// Records are written by strangers. Texts reach the page as textContent only, never as HTML, and
// what is loaded anew is parsed in a document whose scripts do not run.
"use strict";

document.documentElement.classList.add("has-script");

const RELOAD_MS = 5000;
const TAIL_KEPT = 500;

function isTyping(target) {
  return target.closest("input, textarea, select") !== null;
}

// Keys.

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

// Nothing is destroyed by a slip: the button waits for the right name.

function watchConfirmations(root) {
  for (const field of root.querySelectorAll("[data-confirms]")) {
    const button = field.form.querySelector("button.danger");
    const look = () => { button.disabled = field.value !== field.dataset.confirms; };
    field.addEventListener("input", look);
    look();
  }
}
watchConfirmations(document);

// Times are UTC on the page. What that is where the reader lives is told on request.

function localTime(text) {
  const moment = new Date(text);
  return isNaN(moment) ? "UTC" : `UTC; here ${moment.toLocaleString(undefined, { timeZoneName: "short" })}`;
}

function addLocalTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) time.title = localTime(time.dateTime);
}
addLocalTimes(document);

// Loading anew. What somebody has open or is typing in stays as it is.

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
    return; // The console itself is away; the next try may find it.
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

// As html.visible does it on the server: what cannot be seen is written out.
const UNSEEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

function visible(text) {
  return text.replace(UNSEEN, (found) => {
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
  if (shown.is_cut) box.append(make("p", "quiet", "Cut off here; this record alone shows more."));
  return box;
}

function headers(record) {
  const box = make("div", "part");
  box.append(make("h3", "", "Headers"));
  for (const header of record.headers) {
    const line = make("p", "value");
    line.append(make("code", "", visible(header.name)), " ");
    line.append(make("code", "quiet", header.value.format === "null" ? "null" : visible(header.value.text)));
    if (header.value.is_cut) line.append("… (cut off)");
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
  const link = make("a", "", "This record alone");
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
  let isPaused = false, shown = 0, skipped = 0, kept = [];

  function tell(text) {
    const left = skipped ? `, ${skipped} left out` : "";
    const held = isPaused && kept.length ? `, ${kept.length} held back` : "";
    state.textContent = text ?? `following: ${shown} records${left}${held}`;
  }
  function show(records) {
    for (const record of records) list.prepend(row(record, list.dataset.topic));
    shown += records.length;
    while (list.childElementCount > TAIL_KEPT) list.lastElementChild.remove();
  }
  source.addEventListener("ready", () => tell());
  source.addEventListener("records", (event) => {
    const told = JSON.parse(event.data);
    skipped += told.skipped;
    if (isPaused) {
      kept = kept.concat(told.records).slice(-TAIL_KEPT);
    } else {
      show(told.records);
    }
    tell();
  });
  source.addEventListener("failed", (event) => {
    source.close();
    tell(`ended: ${JSON.parse(event.data).message}`);
  });
  source.addEventListener("ended", (event) => {
    source.close();
    tell(`ended after ${JSON.parse(event.data).minutes} minutes; load the page again to go on`);
  });
  source.addEventListener("error", () => {
    const isOver = source.readyState === EventSource.CLOSED;
    tell(isOver ? "not connected: too many tails are open, or the console is away" : "connecting…");
  });
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? "Go on" : "Pause";
    if (!isPaused) {
      show(kept);
      kept = [];
    }
    tell();
  });
  document.getElementById("tail-clear").addEventListener("click", () => list.replaceChildren());
}

const tail = document.getElementById("tail");
if (tail !== null) startTail(tail);
