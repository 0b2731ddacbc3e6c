// Keeps the page current: fetches all scalers once, then takes what has changed from the stream of events.

import { now, set } from './clock.js';
import * as detail from './detail.js';
import { say } from './element.js';
import * as overview from './overview.js';
import { moment } from './text.js';

/** How soon a connection that the browser has given up on is tried again, in ms. */
const RETRY = 2000;
/** How often ages are brought up to date, in ms. */
const AGES = 5000;

const scalers = new Map();
const connection = document.getElementById('connection');
let source = null;
let retry = null;
/** Counts the attempts to connect: one that was overtaken while it waited for an answer gives up. */
let attempt = 0;
/** What has to be done before a change is taken in. */
let loading = Promise.resolve();
const key = (scaler) => `${scaler.namespace}/${scaler.name}`;

/** Takes what all answers have in common. */
function take(answer) {
  set(answer);
  document.getElementById('standby').hidden = answer.leading;
}

async function load() {
  const response = await fetch('api/scalers');
  if (!response.ok) throw new Error(`${response.status}`);
  const all = await response.json();
  take(all);
  scalers.clear();
  for (const scaler of all.scalers) scalers.set(key(scaler), scaler);
  overview.replace(scalers, now());
  detail.refresh();
  return all.event;
}

function update(changes) {
  take(changes);
  for (const [namespace, name] of changes.gone) scalers.delete(`${namespace}/${name}`);
  for (const scaler of changes.scalers) scalers.set(key(scaler), scaler);
  const changed = changes.scalers.map(key);
  const gone = changes.gone.map(([namespace, name]) => `${namespace}/${name}`);
  overview.update(changed, gone, now());
  if (changed.concat(gone).includes(detail.shown())) detail.refresh();
}

function live() {
  connection.className = 'live';
  say(connection, 'live');
}

function lost() {
  if (connection.className === 'lost') return;
  connection.className = 'lost';
  say(connection, `no connection since ${moment(now(), now())}; trying again`);
}

function again() {
  lost();
  clearTimeout(retry);
  retry = setTimeout(connect, RETRY);
}

async function connect() {
  disconnect();
  const mine = attempt;
  let event;
  try {
    event = await load();
  } catch {
    if (mine === attempt) again();
    return;
  }
  if (mine !== attempt) return;
  source = new EventSource(`api/events?since=${encodeURIComponent(event)}`);
  source.addEventListener('scalers', (message) => loading.then(() => update(JSON.parse(message.data))));
  // The server does not know where we stand: it is another process than before.
  source.addEventListener('reset', () => {
    loading = load().catch(again);
  });
  source.addEventListener('open', live);
  source.addEventListener('error', () => {
    lost();
    // The browser tries again by itself, unless something else than the dashboard has answered.
    if (source?.readyState === EventSource.CLOSED) again();
  });
}

function disconnect() {
  attempt += 1;
  clearTimeout(retry);
  source?.close();
  source = null;
}

/** The scaler that the address names; null where it names none. */
function addressed() {
  const [, namespace, name] = location.hash.match(/^#\/([^/]+)\/([^/]+)$/) ?? [];
  if (!namespace || !name) return null;
  try {
    return `${decodeURIComponent(namespace)}/${decodeURIComponent(name)}`;
  } catch {
    // A `%` that encodes nothing names no scaler.
    return null;
  }
}

function route() {
  const to = addressed();
  const from = detail.shown();
  overview.show(to === null, from);
  detail.show(to);
}

say(connection, 'connecting');
overview.start();
window.addEventListener('hashchange', route);
route();
// A page that nobody looks at takes none of the few connections that a browser has to one server.
document.addEventListener('visibilitychange', () => (document.hidden ? disconnect() : connect()));
setInterval(() => overview.age(now()), AGES);
connect();
