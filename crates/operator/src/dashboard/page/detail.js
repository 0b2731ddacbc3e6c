// One scaler: why it has the size that it has, and how it came there.

import { nearest, panel } from './chart.js';
import { now, set } from './clock.js';
import { make, say } from './element.js';
import { SIGNS, level, state } from './state.js';
import { moment, number, span, words } from './text.js';

const article = document.getElementById('detail');
/** Where the axis of requests in time may begin: as high as it can, since most of them are in time. */
const FLOORS = [0.98, 0.95, 0.9, 0.8, 0.5, 0];
/** Namespace and name of what is shown, or `null`. */
let shownKey = null;
let parts = null;
let asking = false;
let again = false;
/** The answer that is shown. */
let latest = null;
/** The sync that the cursor is on, by its time. */
let cursor = null;

export const shown = () => shownKey;

/** Shows a scaler, or none. */
export function show(key) {
  if (key === shownKey) return;
  shownKey = key;
  article.hidden = key === null;
  latest = null;
  cursor = null;
  parts?.sizes.disconnect();
  parts = null;
  if (key === null) {
    article.replaceChildren();
    return;
  }
  const [namespace, name] = key.split('/');
  document.title = `${name}: llmscaler`;
  parts = frame(namespace, name);
  scrollTo(0, 0);
  parts.title.focus({ preventScroll: true });
  refresh();
}

/** Fetches anew what is shown; while an answer is under way, once more after it. */
export async function refresh() {
  if (shownKey === null) return;
  again = asking;
  if (asking) return;
  asking = true;
  const key = shownKey;
  try {
    const response = await fetch(`api/scalers/${key.split('/').map(encodeURIComponent).join('/')}`);
    if (key === shownKey && response.status === 404) missing();
    else if (key === shownKey && response.ok) {
      const answer = await response.json();
      set(answer);
      fill(answer.scaler);
    }
  } catch {
    // The connection is told of at the top; what is shown stays.
  }
  asking = false;
  if (again || key !== shownKey) refresh();
}

/** What stays while its contents change. */
function frame(namespace, name) {
  const title = make('h1', { id: 'detail-title', tabindex: -1 }, name);
  const [lead, mood, notice, facts, why, stages] = [
    make('p', { class: 'lead' }), make('p', { class: 'mood' }), make('p', { class: 'notice', hidden: true }), make('dl', { class: 'facts' }),
    make('p', { class: 'answer' }), make('ol', { class: 'stages' }),
  ];
  const figure = make('figure', { class: 'course', tabindex: 0, role: 'group', 'aria-label': 'Over time. The arrow keys move along the syncs; Home and End go to the first and the last.' });
  const readout = make('p', { class: 'readout', 'aria-live': 'polite' });
  const [readings, conditions] = [make('tbody'), make('tbody')];
  const [decisions, events] = [make('ol', { class: 'log' }), make('ol', { class: 'log' })];
  const section = (heading, ...children) => make('section', {}, make('h2', {}, heading), ...children);
  const columns = (...names) => make('thead', {}, make('tr', {}, ...names.map((column) => make('th', { scope: 'col' }, column))));
  const tabled = (caption, body, ...names) => make('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': caption }, make('table', {}, columns(...names), body));
  article.replaceChildren(
    make('nav', { 'aria-label': 'Back' }, make('a', { href: '#/' }, '← All scalers')),
    make('header', {}, make('p', { class: 'kind' }, namespace), title, lead, mood, notice, facts),
    section('Why this size', why, stages),
    section('Over time', figure, readout),
    section('Signals', tabled('Signals', readings, 'Signal', 'State', 'Value', 'Target', 'Proposes', 'In words')),
    section('Conditions', tabled('Conditions', conditions, 'Condition', 'Status', 'Reason', 'Since', 'Message')),
    section('Recent decisions', make('p', { class: 'none' }, 'Those that changed the size, or came to another reason than the one before.'), decisions),
    section('Recent events', events),
  );
  figure.addEventListener('pointermove', (event) => point(event.clientX));
  figure.addEventListener('pointerdown', (event) => point(event.clientX));
  figure.addEventListener('pointerleave', () => moveTo(null));
  figure.addEventListener('keydown', step);
  const sizes = new ResizeObserver(() => latest && drawCourse(latest));
  sizes.observe(figure);
  return { title, lead, mood, notice, facts, why, stages, figure, readout, readings, conditions, decisions, events, sizes, pictures: [], x: null };
}

function missing() {
  latest = null;
  for (const child of [...article.children].slice(2)) child.hidden = true;
  parts.facts.replaceChildren();
  parts.mood.replaceChildren();
  say(parts.lead, '');
  parts.notice.hidden = false;
  say(parts.notice, 'This operator looks after no scaler by that name: it was deleted, or has not been synced yet.');
}

function fill(scaler) {
  latest = scaler;
  for (const child of article.children) child.hidden = false;
  const at = now();
  const mode = scaler.recommendsOnly ? '; recommends only, and writes nothing' : '';
  say(parts.lead, `Scales ${scaler.target || 'a target that was not found yet'}${mode}`);
  const severity = level(scaler);
  parts.mood.replaceChildren(make('span', { class: `sign ${severity}`, 'aria-hidden': 'true' }, SIGNS[severity]), ` ${state(scaler)}`);
  parts.notice.hidden = !scaler.trouble;
  if (scaler.trouble) say(parts.notice, `The last sync came to nothing: ${scaler.trouble.message}`);
  facts(scaler, at);
  say(parts.why, scaler.decision?.message ?? 'Nothing has been decided yet.');
  parts.stages.replaceChildren(...(scaler.decision?.stages ?? []).map(stage));
  drawCourse(scaler);
  parts.readings.replaceChildren(...scaler.readings.map((one) => reading(one, scaler.spec)));
  parts.conditions.replaceChildren(...scaler.conditions.map((condition) => conditionRow(condition, at)));
  decisions(scaler.decisions, at);
  parts.events.replaceChildren(...(scaler.events.length ? scaler.events.map((event) => eventItem(event, at)) : [make('li', { class: 'none' }, 'None since this operator started.')]));
}

function facts(scaler, now) {
  const count = (value) => (value === null ? 'unknown' : String(value));
  const last = scaler.lastScale;
  const sizes = last && last.from !== null ? `${last.from} → ${last.to}, ` : '';
  const all = [
    ['Ready', count(scaler.ready)],
    ['Asked for', count(scaler.spec)],
    ['Desired', count(scaler.desired)],
    ['Bounds', scaler.min === null ? 'unknown' : `${scaler.min} to ${scaler.max}`],
    ['Last change', last ? `${sizes}${span(now - last.at)} ago` : 'none seen'],
    ['Last sync', scaler.at === null ? 'none' : moment(scaler.at, now)],
    scaler.warmup && ['Pods start in', `${scaler.warmup.seconds} s`],
    scaler.objective !== null && ['Objective', `${number(scaler.objective * 100)} % in time`],
  ].filter(Boolean);
  parts.facts.replaceChildren(...all.map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value))));
}

function stage({ stage: name, in: before, out, reason, message }) {
  const changed = before !== out;
  return make('li', { class: changed ? 'changed' : undefined },
    make('span', { class: 'stage' }, name),
    make('span', { class: 'counts', 'aria-label': changed ? `${before} in, ${out} out` : `${out}, unchanged` }, changed ? `${before} → ${out}` : `${out}`),
    make('span', { class: 'told' }, make('b', {}, `${words(reason)}:`), ` ${message}`));
}

function reading({ name, state, value, target, total, replicas, message }, spec) {
  const against = total ? target * (spec ?? 0) : target;
  const kind = state === 'Unknown' ? 'bad' : against && value / against > 1 ? 'over' : undefined;
  return make('tr', {}, make('th', { scope: 'row' }, name), make('td', { class: state === 'Unknown' ? 'bad' : undefined, 'data-label': 'state' }, state.toLowerCase()),
    make('td', { class: kind, 'data-label': 'value' }, number(value)), make('td', { 'data-label': 'target' }, target === null ? '–' : total ? `${number(target)} a replica` : number(target)),
    make('td', { 'data-label': 'proposes' }, replicas === null ? 'nothing' : String(replicas)), make('td', { class: 'wide' }, message ?? ''));
}

function conditionRow({ type, status, reason, since, message }, now) {
  return make('tr', {}, make('th', { scope: 'row' }, type), make('td', {}, status), make('td', {}, words(reason)),
    make('td', {}, `${span(now - since)} ago`), make('td', { class: 'wide' }, message));
}

/** Those that are shown already stay, so that what was opened stays open. */
function decisions(all, now) {
  const known = new Map([...parts.decisions.children].map((item) => [item.dataset.at, item]));
  parts.decisions.replaceChildren(...all.map((decision) => known.get(String(decision.at)) ?? decisionItem(decision, now)));
}

function decisionItem(decision, now) {
  const { at, spec, written, reason, message, stages } = decision;
  const size = written === null ? `${spec}` : `${spec} → ${written}`;
  const kind = written === null ? 'held' : written > spec ? 'up' : 'down';
  const summary = make('summary', {}, make('time', { datetime: new Date(at).toISOString() }, moment(at, now)), ' ',
    make('span', { class: `counts ${kind}` }, size), ' ', make('b', {}, words(reason)), make('span', { class: 'told' }, message));
  return make('li', { 'data-at': at }, make('details', {}, summary, make('ol', { class: 'stages' }, ...stages.map(stage))));
}

function eventItem({ at, warning, reason, message }, now) {
  return make('li', {}, make('time', { datetime: new Date(at).toISOString() }, moment(at, now)), ' ',
    make('b', { class: warning ? 'bad' : undefined }, warning ? '▲ ' : '', words(reason)), make('span', { class: 'told' }, message));
}

/** The pictures, one above the other on one axis of time. */
function drawCourse(scaler) {
  const { history } = scaler;
  const width = Math.floor(parts.figure.clientWidth);
  if (!history.at.length || width < 100) {
    parts.figure.replaceChildren(make('p', { class: 'none' }, 'Nothing has been seen yet.'));
    return;
  }
  const past = history.at.at(-1) - history.at[0];
  const over = past > 0 ? `over the last ${span(past)}` : 'at the only sync';
  const course = (values, format) => {
    const known = values.filter((value) => value !== null);
    if (!known.length) return 'unknown all the time';
    const now = values.at(-1) === null ? 'unknown' : format(values.at(-1));
    return `now ${now}, ${format(Math.min(...known))} to ${format(Math.max(...known))} ${over}`;
  };
  const whole = (value) => String(value);
  const percent = (value) => `${number(value * 100)} %`;
  const panels = [panel({
    title: 'Replicas', times: history.at, width, height: 190, least: Math.max(1, ...history.max.filter((max) => max !== null && max <= 100)), format: number,
    band: { low: history.min, high: history.max },
    lines: [
      { name: 'ready', kind: 'ready', sign: '━', values: history.ready, steps: true },
      { name: 'desired', kind: 'desired', sign: '┅', values: history.desired, steps: true },
      { name: 'asked for', kind: 'asked', sign: '╌', values: history.spec, steps: true },
    ],
    summary: `Asked for ${course(history.spec, whole)}; ready ${course(history.ready, whole)}; desired ${course(history.desired, whole)}.`,
  })];
  const totals = new Set(scaler.readings.filter((one) => one.total).map((one) => one.name));
  for (const { name, value, target } of history.signals) {
    const against = totals.has(name) ? 'target × replicas' : 'target';
    const hasTarget = target.some((level) => level !== null);
    panels.push(panel({
      title: name, times: history.at, width, height: 112, least: 0,
      lines: [{ name: 'value', kind: 'signal-line', sign: '━', values: value }].concat(hasTarget ? [{ name: against, kind: 'promise', sign: '─', values: target, steps: true }] : []),
      summary: `Value ${course(value, number)}${hasTarget ? `; ${against} ${course(target, number)}` : ''}.`,
    }));
  }
  const inTime = (late) => late.map((share) => (share === null ? null : 1 - share));
  const [ttft, tpot] = [inTime(history.lateTtft), inTime(history.lateTpot)];
  if ([...ttft, ...tpot].some((share) => share !== null)) {
    const goal = scaler.objective === null ? [] : [{ name: 'objective', kind: 'promise', sign: '─', values: history.at.map(() => scaler.objective) }];
    const floor = FLOORS.find((share) => share <= Math.min(...[...ttft, ...tpot, scaler.objective].filter((value) => value !== null)));
    panels.push(panel({
      title: 'Requests in time', floor, times: history.at, width, height: 112, least: 1, format: percent,
      lines: [{ name: 'first token', kind: 'ttft', sign: '━', values: ttft }, { name: 'per token', kind: 'tpot', sign: '━', values: tpot }, ...goal],
      summary: `First token ${course(ttft, percent)}; per token ${course(tpot, percent)}.`,
    }));
  }
  parts.x = panels[0].x;
  parts.pictures = panels.map(({ svg }) => svg);
  parts.figure.replaceChildren(...parts.pictures);
  moveTo(cursor);
}

function point(place) {
  if (!latest?.history.at.length || !parts.x) return;
  moveTo(latest.history.at[nearest(latest.history.at, parts.x, place - parts.figure.getBoundingClientRect().left)]);
}

function step(event) {
  const times = latest?.history.at ?? [];
  if (!times.length) return;
  const index = cursor === null ? times.length : times.indexOf(cursor);
  const to = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: times.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  moveTo(times[Math.max(0, Math.min(times.length - 1, to))]);
}

/** Puts the cursor on a sync, and tells its values. */
function moveTo(at) {
  const { history } = latest ?? {};
  const index = history?.at.indexOf(at) ?? -1;
  cursor = index < 0 ? null : at;
  for (const svg of parts.pictures) {
    const line = svg.querySelector('.cursor');
    line.setAttribute('visibility', cursor === null ? 'hidden' : 'visible');
    if (cursor !== null) line.setAttribute('transform', `translate(${parts.x(at).toFixed(1)} 0)`);
  }
  if (cursor === null) {
    say(parts.readout, 'Point at a picture, or move along it with the arrow keys, to read its values.');
    return;
  }
  const told = [`${moment(at, now())}:`, `ready ${number(history.ready[index])}`, `asked for ${number(history.spec[index])}`, `desired ${number(history.desired[index])}`]
    .concat(history.signals.map(({ name, value }) => `${name} ${number(value[index])}`));
  for (const [name, late] of [['first token', history.lateTtft], ['per token', history.lateTpot]]) {
    if (late[index] !== null) told.push(`${name} in time ${number((1 - late[index]) * 100)} %`);
  }
  say(parts.readout, told.join(' · ').replace(': ·', ':'));
}
