// Pictures over time: steps for replicas, lines for signals. What is unknown is a gap.

import { draw } from './element.js';
import { number, tickTime } from './text.js';

const LEFT = 44;
const RIGHT = 10;
const TOP = 30;
const BOTTOM = 22;

/** Round numbers from 0 to at least `most`, about `count` of them. */
export function ticks(most, count) {
  const width = Math.max(most, 1e-9);
  const decade = 10 ** Math.floor(Math.log10(width / count));
  const step = [1, 2, 5, 10, 20].map((factor) => factor * decade).find((size) => Math.ceil(width / size - 1e-9) <= count);
  return Array.from({ length: Math.ceil(width / step - 1e-9) + 1 }, (_, index) => index * step);
}

/** A path through points, broken where one is unknown. With `steps` each level lasts until the next. */
export function path(points, steps) {
  let drawn = false;
  let text = '';
  for (const [x, y] of points) {
    if (y === null) {
      // What was known lasted until here.
      if (drawn && steps) text += `H${x.toFixed(1)}`;
      drawn = false;
      continue;
    }
    const at = x.toFixed(1);
    text += !drawn ? `M${at} ${y.toFixed(1)}h0` : steps ? `H${at}V${y.toFixed(1)}` : `L${at} ${y.toFixed(1)}`;
    drawn = true;
  }
  return text;
}

/** The area between two levels over time, in pieces. */
function band(xs, lows, highs) {
  let text = '';
  for (let index = 0; index + 1 < xs.length; index += 1) {
    const [low, high] = [lows[index], highs[index]];
    if (low !== null && high !== null) text += `M${xs[index].toFixed(1)} ${low.toFixed(1)}H${xs[index + 1].toFixed(1)}V${high.toFixed(1)}H${xs[index].toFixed(1)}Z`;
  }
  return text;
}

/** Times for an axis. */
function marks(from, to, most) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 86_400].map((seconds) => seconds * 1000);
  const step = steps.find((size) => (to - from) / size <= most) ?? steps.at(-1);
  const first = Math.ceil(from / step) * step;
  const times = [];
  for (let at = first; at <= to; at += step) times.push([at, tickTime(at, step < 60_000)]);
  return times;
}

/**
 * A panel. `lines` are `{name, values, kind, steps, sign}`, `band` is `{low, high}` of counts; all run along `times`.
 * `least` is where the axis ends at the least; with a `floor` it goes from there to 1. The summary is what the picture says to those who do not see it.
 */
export function panel({ title, times, lines, band: range, least, floor, height, width, format = number, summary }) {
  const known = lines.flatMap((line) => line.values).filter((value) => value !== null);
  const scale = floor === undefined ? ticks(Math.max(least, ...known), height > 120 ? 4 : 3) : [floor, (floor + 1) / 2, 1];
  const [lowest, most] = [scale[0], scale.at(-1)];
  const [from, to] = [times[0], Math.max(times.at(-1), times[0] + 1000)];
  const x = (at) => LEFT + ((at - from) / (to - from)) * (width - LEFT - RIGHT);
  const y = (value) => (value === null ? null : TOP + (1 - Math.min(1, (value - lowest) / (most - lowest))) * (height - TOP - BOTTOM));
  const svg = draw('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `${title}. ${summary}` });
  for (const mark of scale) {
    svg.append(
      draw('path', { class: 'grid', d: `M${LEFT} ${y(mark).toFixed(1)}H${width - RIGHT}` }),
      draw('text', { class: 'tick', x: LEFT - 6, y: (y(mark) + 4).toFixed(1), 'text-anchor': 'end' }, format(mark)),
    );
  }
  for (const [at, label] of marks(from, to, width / 95)) {
    const where = x(at);
    svg.append(draw('path', { class: 'grid', d: `M${where.toFixed(1)} ${TOP}V${height - BOTTOM}` }));
    if (where > LEFT + 12 && where < width - 18) {
      svg.append(draw('text', { class: 'tick', x: where.toFixed(1), y: height - 6, 'text-anchor': 'middle' }, label));
    }
  }
  const heading = draw('text', { class: 'panel', x: 0, y: 14 }, draw('tspan', { class: 'panel-name' }, title));
  for (const line of lines) heading.append(' ', draw('tspan', { class: `${line.kind}-text`, dx: 7 }, `${line.sign} ${line.name}`));
  if (range) heading.append(' ', draw('tspan', { class: 'need-text', dx: 7 }, '■ bounds'));
  svg.append(heading);
  const xs = times.map(x);
  if (range) svg.append(draw('path', { class: 'need', d: band(xs, range.low.map(y), range.high.map(y)) }));
  const broken = gaps(times);
  for (const line of lines) {
    const points = xs.flatMap((at, index) => (broken.has(index) ? [[at, null]] : []).concat([[at, y(line.values[index])]]));
    svg.append(draw('path', { class: line.kind, d: path(points, line.steps) }));
  }
  svg.append(draw('path', { class: 'cursor', d: `M0 ${TOP}V${height - BOTTOM}`, visibility: 'hidden' }));
  return { svg, x };
}

/** The syncs before which there was none for long: nobody knows what was then. */
function gaps(times) {
  const steps = times.slice(1).map((at, index) => at - times[index]);
  const usual = [...steps].sort((a, b) => a - b)[Math.floor(steps.length / 2)] ?? 0;
  return new Set(steps.flatMap((step, index) => (step > usual * 4 ? [index + 1] : [])));
}

/** The sync nearest to a place in a picture, as its index. */
export function nearest(times, x, place) {
  let best = 0;
  times.forEach((at, index) => {
    if (Math.abs(x(at) - place) < Math.abs(x(times[best]) - place)) best = index;
  });
  return best;
}
