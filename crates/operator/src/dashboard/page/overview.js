// The table of all scalers.

import { path } from './chart.js';
import { make, say } from './element.js';
import { SIGNS, level, state } from './state.js';
import { number, span } from './text.js';

const overview = document.getElementById('overview');
const table = document.getElementById('scalers');
const body = table.tBodies[0];
const template = document.getElementById('row').content.firstElementChild;
const search = document.getElementById('search');
const onlyTroubles = document.getElementById('troubles');

/** What each column is sorted by; unknown goes last, either way. */
const SORTS = {
  name: (scaler) => `${scaler.namespace}/${scaler.name}`,
  target: (scaler) => scaler.target,
  ready: (scaler) => scaler.ready,
  spec: (scaler) => scaler.spec,
  desired: (scaler) => scaler.desired,
  bounds: (scaler) => (scaler.spec === null || scaler.max === null ? null : scaler.spec / Math.max(1, scaler.max)),
  signals: (scaler) => {
    const shares = scaler.signals.map((signal) => share(signal, scaler.spec)).filter((value) => value !== null);
    return shares.length ? Math.max(...shares) : null;
  },
  state: (scaler) => `${{ trouble: 0, waiting: 1, well: 2 }[level(scaler)]} ${state(scaler)}`,
  change: (scaler) => scaler.lastScale?.at ?? null,
};

/** The columns whose largest values are looked for. */
const DESCENDING = new Set(['ready', 'spec', 'desired', 'bounds', 'signals', 'change']);
const collator = new Intl.Collator(undefined, { numeric: true });

/** By namespace and name: the scaler, its row, and what the row shows. */
const rows = new Map();
let scalers = new Map();
let sort = { by: 'name', down: false };
let loaded = false;

/** A signal as a share of its target: of a pool's total, of what its replicas take at the target. */
function share(signal, spec) {
  const against = signal.total ? (signal.target ?? 0) * (spec ?? 0) : signal.target;
  return signal.value === null || !against ? null : signal.value / against;
}

function lastChange(scaler, now) {
  const last = scaler.lastScale;
  if (!last) return '–';
  const sizes = last.from === null ? '' : `${last.from} → ${last.to}, `;
  return `${sizes}${span(now - last.at)} ago`;
}

function signalText(signal, spec) {
  if (signal.state === 'Unknown') return `${signal.name} unknown`;
  if (signal.state === 'Idle') return `${signal.name} idle`;
  const times = signal.total && spec !== null ? `${spec} × ` : '';
  const target = signal.target === null ? '' : ` / ${times}${number(signal.target)}`;
  return `${signal.name} ${number(signal.value)}${target}`;
}

function trend(scaler) {
  const most = Math.max(scaler.max ?? 1, ...scaler.trend, 1);
  const x = (index) => 1 + (index / Math.max(1, scaler.trend.length)) * 94;
  const y = (count) => (count === null ? null : 23 - (count / most) * 21);
  const points = scaler.trend.map((count, index) => [x(index), y(count)]);
  const last = points.at(-1);
  return path(last ? [...points, [95, last[1]]] : [], true);
}

function bounds(scaler) {
  if (scaler.min === null) return 'unknown';
  const used = scaler.spec === null ? '?' : scaler.spec;
  return `${used} in ${scaler.min}–${scaler.max}`;
}

/** Fills in the row of a scaler. */
function fill(entry, now) {
  const { scaler, row } = entry;
  const [name, target, ready, spec, desired, range, signals, status, change] = row.cells;
  const link = name.firstElementChild;
  if (!link.hasAttribute('href')) {
    link.setAttribute('href', `#/${encodeURIComponent(scaler.namespace)}/${encodeURIComponent(scaler.name)}`);
    say(link, scaler.name);
    say(name.lastElementChild, scaler.namespace);
  }
  const [kind, workload] = scaler.target.split('/');
  say(target.firstElementChild, workload ?? '–');
  say(target.lastElementChild, kind);
  [[ready, scaler.ready], [spec, scaler.spec], [desired, scaler.desired]].forEach(([cell, count]) => {
    say(cell, count === null ? '?' : String(count));
  });
  desired.classList.toggle('differs', scaler.desired !== null && scaler.desired !== scaler.spec);
  ready.classList.toggle('differs', scaler.ready !== null && scaler.ready !== scaler.spec);
  const line = trend(scaler);
  const [area, stroke] = range.firstElementChild.children;
  if (stroke.getAttribute('d') !== line) {
    stroke.setAttribute('d', line);
    const floor = 23 - ((scaler.min ?? 0) / Math.max(scaler.max ?? 1, ...scaler.trend, 1)) * 21;
    area.setAttribute('d', `M1 2H95V${floor.toFixed(1)}H1Z`);
  }
  say(range.lastElementChild, bounds(scaler));
  const told = scaler.signals.map((signal) => signalText(signal, scaler.spec));
  if (entry.told !== told.join('\n')) {
    entry.told = told.join('\n');
    signals.replaceChildren(...scaler.signals.map((signal, index) => {
      const ratio = share(signal, scaler.spec);
      const kind = signal.state === 'Unknown' ? 'unknown' : ratio > 1 ? 'over' : 'within';
      const item = make('span', { class: `signal ${kind}` }, told[index]);
      item.style.setProperty('--share', `${Math.min(100, (ratio ?? 0) * 100).toFixed(0)}%`);
      return item;
    }));
  }
  const severity = level(scaler);
  const word = state(scaler);
  if (entry.word !== severity + word) {
    entry.word = severity + word;
    status.replaceChildren(make('span', { class: `sign ${severity}`, 'aria-hidden': 'true' }, SIGNS[severity]), ` ${word}`);
  }
  say(change, lastChange(scaler, now));
  entry.text = `${scaler.namespace}/${scaler.name} ${scaler.target} ${told.join(' ')} ${word} ${scaler.reason ?? ''} ${scaler.troubles.join(' ')}`.toLowerCase();
  entry.trouble = severity === 'trouble';
}

function add(name, now) {
  const scaler = scalers.get(name);
  const entry = rows.get(name) ?? { row: template.cloneNode(true) };
  rows.set(name, entry);
  entry.scaler = scaler;
  fill(entry, now);
}

/** Puts the rows into their order, moving only those that are out of place, and hides those that are not asked for. */
function arrange() {
  const by = SORTS[sort.by];
  const keyed = [...rows.values()].map((entry) => ({ entry, value: by(entry.scaler), name: SORTS.name(entry.scaler) }));
  const compare = (a, b) => (typeof a === 'string' ? collator.compare(a, b) : a - b);
  keyed.sort((a, b) => {
    if (a.value === null || b.value === null) return (a.value === null) - (b.value === null) || collator.compare(a.name, b.name);
    const order = compare(a.value, b.value);
    return (sort.down ? -order : order) || collator.compare(a.name, b.name);
  });
  const asked = search.value.trim().toLowerCase().split(/\s+/);
  const focused = body.contains(document.activeElement) ? document.activeElement : null;
  let place = body.firstElementChild;
  let shown = 0;
  for (const { entry } of keyed) {
    const { row } = entry;
    if (row === place) place = place.nextElementSibling;
    else body.insertBefore(row, place);
    row.hidden = (onlyTroubles.checked && !entry.trouble) || !asked.every((word) => entry.text.includes(word));
    if (!row.hidden) shown += 1;
  }
  // A row that moves loses the focus.
  if (focused && document.activeElement !== focused) focused.focus({ preventScroll: true });
  const all = rows.size;
  say(document.getElementById('count'), shown === all ? `${all} scalers` : `${shown} of ${all} scalers`);
  const empty = document.getElementById('empty');
  empty.hidden = !loaded || shown > 0;
  say(empty, all === 0 ? 'No LLMScaler has been synced yet. Apply one, and it appears here.' : 'No scaler matches; clear the search to see all.');
  table.hidden = shown === 0;
}

function totals() {
  const all = [...rows.values()].map((entry) => entry.scaler);
  const sum = (field) => all.reduce((total, scaler) => total + (scaler[field] ?? 0), 0);
  const count = (kind) => all.filter((scaler) => level(scaler) === kind).length;
  const facts = [
    ['Troubles', count('trouble')],
    ['Waiting', count('waiting')],
    ['Replicas asked for', sum('spec')],
    ['Ready', sum('ready')],
  ];
  const list = document.getElementById('totals');
  if (!list.children.length) list.append(...facts.map(([name]) => make('div', {}, make('dt', {}, name), make('dd'))));
  facts.forEach(([, value], index) => say(list.children[index].lastElementChild, String(value)));
  list.firstElementChild.classList.toggle('bad', facts[0][1] > 0);
}

/** Shows other scalers than before. */
export function replace(all, now) {
  scalers = all;
  loaded = true;
  for (const [name, entry] of rows) {
    if (!scalers.has(name)) {
      entry.row.remove();
      rows.delete(name);
    }
  }
  for (const name of scalers.keys()) add(name, now);
  totals();
  arrange();
}

/** Takes in what has changed. */
export function update(changed, gone, now) {
  for (const name of gone) {
    rows.get(name)?.row.remove();
    rows.delete(name);
  }
  for (const name of changed) add(name, now);
  totals();
  arrange();
}

/** Brings the ages up to date. */
export function age(now) {
  if (overview.hidden) return;
  for (const { scaler, row } of rows.values()) say(row.cells[8], lastChange(scaler, now));
}

/** Shows or hides the overview; `from` is the scaler that was looked at. */
export function show(visible, from) {
  overview.hidden = !visible;
  if (!visible) return;
  document.title = 'llmscaler';
  if (from !== null) (rows.get(from)?.row.cells[0].firstElementChild ?? document.getElementById('overview-title')).focus();
}

export function start() {
  for (const header of table.tHead.rows[0].cells) {
    header.firstElementChild.addEventListener('click', () => {
      const by = header.dataset.sort;
      sort = { by, down: sort.by === by ? !sort.down : DESCENDING.has(by) };
      for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
      header.setAttribute('aria-sort', sort.down ? 'descending' : 'ascending');
      arrange();
    });
  }
  search.addEventListener('input', arrange);
  onlyTroubles.addEventListener('change', arrange);
}
