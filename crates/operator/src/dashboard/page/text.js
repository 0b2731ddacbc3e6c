// Numbers, times and codes as people read them.

/** Codes whose parts do not say it. Any other is written as its words. */
const WORDS = {
  NoChange: 'steady',
  DesiredWithinRange: 'within range',
  ReadyForNewScale: 'free to scale',
  Settled: 'nothing in the way',
  SuccessfulRescale: 'rescaled',
  ValidMetricFound: 'a signal decides',
  FailedGetMetrics: 'signals unknown',
  FailedGetScale: 'target cannot be read',
  FailedUpdateScale: 'size cannot be written',
  InvalidSpec: 'invalid spec',
  TooManyReplicas: 'held at the maximum',
  TooFewReplicas: 'held at the minimum',
  ScaleUpLimit: 'growth paced by a policy',
  ScaleDownLimit: 'shrinking step by step',
  ScaleUpStabilized: 'held by a recent low',
  ScaleDownStabilized: 'held by a recent peak',
  NotSettled: 'waits for pods',
  RolloutInProgress: 'waits for a rollout',
  Unschedulable: 'no room for its pods',
  TargetOwned: 'another owner writes',
  RecommendOnly: 'recommends only',
  CooldownActive: 'cools down',
  PoolsMayMix: 'queries may mix pools',
  DemandAboveMax: 'needs more than the maximum',
};

/** A code in words. */
export const words = (code) => WORDS[code] ?? code.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();

/** A number with no more places than say something; `null` is unknown. */
export function number(value) {
  if (value === null || value === undefined) return 'unknown';
  const size = Math.abs(value);
  const places = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return size >= 1e6 ? value.toExponential(2) : String(Number(value.toFixed(places)));
}

/** A duration of so many milliseconds. */
export function span(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86_400 * 2) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const clockFace = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const shortFace = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

/** A moment, with its date unless it was within the last day. */
export const moment = (at, now) => (now - at < 86_400_000 ? clockFace : day).format(at);

/** A moment on an axis. */
export const tickTime = (at, withSeconds) => (withSeconds ? clockFace : shortFace).format(at);
