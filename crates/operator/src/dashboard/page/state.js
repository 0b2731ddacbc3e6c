// The state of a scaler: how much it wants to be looked at, and why.

import { words } from './text.js';

/** How much a scaler wants to be looked at. */
export const level = (scaler) => (scaler.troubles.length ? 'trouble' : scaler.deferred || missing(scaler) > 0 ? 'waiting' : 'well');

/** How many replicas are asked for and not ready. */
const missing = (scaler) => (scaler.spec === null || scaler.ready === null ? 0 : scaler.spec - scaler.ready);

/** What stands before the words, so that the colour does not tell alone. */
export const SIGNS = { trouble: '▲', waiting: '◌', well: '●' };

/** The state in words. */
export function state(scaler) {
  if (scaler.troubles.length) return scaler.troubles.map(words).join(', ');
  if (scaler.reason === null) return 'not looked at yet';
  if (scaler.deferred && scaler.spec !== null && scaler.desired !== null && scaler.spec !== scaler.desired) {
    return `${scaler.spec} → ${scaler.desired}, ${words(scaler.reason)}`;
  }
  return missing(scaler) > 0 ? `${missing(scaler)} not ready, ${words(scaler.reason)}` : words(scaler.reason);
}
