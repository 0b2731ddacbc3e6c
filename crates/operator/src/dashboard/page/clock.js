// The server's clock. It is what ages are counted by: the browser's may be wrong, and the demo's time is faster.

/** What it is ahead of ours, in ms. Every answer tells it, so it is known before there is an age to show. */
let ahead = 0;

export const now = () => Date.now() + ahead;

/** Sets it by an answer, which tells the server's time in ms since 1970. */
export function set(answer) {
  ahead = answer.now - Date.now();
}
