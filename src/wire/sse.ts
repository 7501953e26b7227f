/** One event of a text/event-stream. `data` is the text between the framing, joined by newlines. */
export interface SseEvent {
  readonly id?: string;
  readonly event?: string;
  readonly data: string;
  readonly retry?: number;
}

const lines = (field: string, text: string): string =>
  text
    .split(/\r\n|\r|\n/)
    .map((line) => `${field}: ${line}\n`)
    .join('');

/** One event as text, blank line included. */
export function encodeSse({ id, event, data, retry }: SseEvent): string {
  return (
    (event === undefined ? '' : lines('event', event)) +
    (id === undefined ? '' : lines('id', id)) +
    (retry === undefined ? '' : lines('retry', String(retry))) +
    lines('data', data) +
    '\n'
  );
}
