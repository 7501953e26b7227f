/** Formats a duration: `8 ms`, `1.2 s`, `3 min`, `2 h`, `5 d`. */
export function duration(ms: number): string {
  const span = Math.max(0, ms);
  if (span < 1000) return `${Math.round(span)} ms`;
  if (span < 60_000) return `${(span / 1000).toFixed(span < 10_000 ? 1 : 0)} s`;
  if (span < 3_600_000) return `${Math.round(span / 60_000)} min`;
  return span < 172_800_000
    ? `${Math.round(span / 3_600_000)} h`
    : `${Math.round(span / 86_400_000)} d`;
}

/** Formats the time since the start of a task with milliseconds: `0.042`, `12.400`, `3:07.2`. */
export function offsetTime(ms: number): string {
  const span = Math.max(0, ms);
  if (span < 60_000) return (span / 1000).toFixed(3);
  const minutes = Math.floor(span / 60_000);
  const seconds = ((span % 60_000) / 1000).toFixed(1).padStart(4, '0');
  if (minutes < 60) return `${minutes}:${seconds}`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')}:${seconds.slice(0, 2)}`;
}

/** Formats a moment on the clock of the user, with milliseconds. */
export const clockTime = (at: number): string =>
  new Date(at).toLocaleTimeString(undefined, {
    hour12: false,
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    fractionalSecondDigits: 3,
  });

/** Formats how long ago something was. Young ages are rounded, so that a list does not flicker. */
export const ageText = (ms: number): string => (ms < 10_000 ? 'just now' : `${duration(ms)} ago`);
