// A cursor through the pictures of a run. Everything else works without a script.
"use strict";
const seconds = (value) => (value === null ? "none" : value < 0 ? "never" : value < 1 ? Math.round(value * 1000) + " ms" : value.toFixed(value < 10 ? 2 : 1) + " s");
const clock = (at) => {
  const two = (n) => String(n).padStart(2, "0");
  const [h, m, s] = [Math.floor(at / 3600), Math.floor(at / 60) % 60, Math.floor(at % 60)];
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
};
const figures = [...document.querySelectorAll("figure.course")].map((figure) => ({
  figure,
  rows: JSON.parse(figure.querySelector("script").textContent),
  readout: figure.querySelector(".readout"),
}));
// The same moment in every run, so that they can be held against each other; only the one pointed at speaks.
const show = (at, spoken) => {
  for (const { figure, rows, readout } of figures) {
    for (const svg of figure.querySelectorAll("svg")) {
      const { left, right, end } = svg.dataset;
      const cursor = svg.querySelector(".cursor");
      const x = +left + ((+right - left) * at) / end;
      cursor.setAttribute("transform", `translate(${x.toFixed(1)} 0)`);
      cursor.setAttribute("visibility", "visible");
    }
    const row = rows.find((row) => row[0] >= at) ?? rows[rows.length - 1];
    readout.setAttribute("aria-live", figure === spoken ? "polite" : "off");
    if (!row) continue;
    const [end, asked, ready, need, arrivals, late, ttft, tpot, waiting, kv] = row;
    readout.textContent =
      `${clock(end)}: ${ready} ready of ${asked} asked for, ${need.toFixed(1)} needed; ${arrivals.toFixed(1)} requests/s, ${late} late, ` +
      `${waiting} waiting; p90 first token ${seconds(ttft)}, per token ${seconds(tpot)}; KV ${Math.round(kv * 100)} %`;
  }
};
for (const { figure, rows } of figures) {
  let index = -1;
  for (const svg of figure.querySelectorAll("svg")) {
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const { left, right, end } = svg.dataset;
      const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      show(Math.min(+end, Math.max(0, ((x - left) / (right - left)) * end)), figure);
    });
  }
  figure.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, PageUp: -10, PageDown: 10, Home: -rows.length, End: rows.length }[event.key];
    if (!step) return;
    event.preventDefault();
    index = Math.min(rows.length - 1, Math.max(0, index + step));
    show(rows[index][0], figure);
  });
}
// A link to a run opens it.
const open = () => {
  const run = location.hash.startsWith("#run-") && document.querySelector(location.hash);
  if (run) run.open = true;
};
addEventListener("hashchange", open);
open();
