import type { Answer } from '../../../src/ask.ts';
import type { Entry, Outcome, Part } from '../../../src/event/types.ts';
import { duration } from './format-time.ts';
import { shortName } from './frame-facts.ts';
import type { TimelineRow } from './timeline-row.ts';

const TAIL_CHARS = 60;
const LINE_CHARS = 200;

export const OUTCOME_TEXTS: Readonly<Record<Outcome, string>> = {
  completed: 'Completed',
  failed: 'Failed',
  canceled: 'Canceled',
  rejected: 'Rejected',
  'input-required': 'Waiting for your answer',
};

export const ACTION_TEXTS: Readonly<Record<Answer['action'], string>> = {
  accept: 'Approved',
  decline: 'Rejected',
  cancel: 'Dismissed',
};

export const messageText = (part: Part): string => {
  if ('text' in part) return part.text;
  return 'data' in part ? JSON.stringify(part.data, null, 2) : (part.filename ?? 'file');
};

/** The text of an answer of a person: the content, or only whether it was approved. */
export function answerText({ action, content }: Answer, isQuestion: boolean): string {
  const given =
    content === undefined ? '' : typeof content === 'string' ? content : JSON.stringify(content);
  if (isQuestion && action === 'accept') return given || 'Answered without text';
  return given && action === 'accept' ? `${ACTION_TEXTS[action]}: ${given}` : ACTION_TEXTS[action];
}

const TITLE_CHARS = 120;

/** The title of a record is its name or title; of a text, its start. */
export function titleText(text: string): string {
  if (text.startsWith('{'))
    try {
      const { title, name } = JSON.parse(text) as Readonly<Record<string, unknown>>;
      const given = [title, name].find((each) => typeof each === 'string');
      if (given !== undefined) return given as string;
    } catch {
      // A text that begins with a brace.
    }
  return text.slice(0, TITLE_CHARS).replaceAll(/\s+/g, ' ');
}

/** The text of a row, shortened to one line. */
export function rowLabel({ kind, text, growing, path, span, by }: TimelineRow): string {
  const from = path?.length ? `${path.join(' › ')}: ` : '';
  const tail = growing && text.length > TAIL_CHARS; // of a growing block the end is shown
  const shown = tail ? `…${text.slice(-TAIL_CHARS)}` : text.slice(0, LINE_CHARS);
  const line = shown.replaceAll(/\s+/g, ' ');
  if (kind === 'user') return titleText(text);
  if (kind === 'reasoning') return `${from}(thinks) ${line}`;
  if (kind === 'answer') return `${by ?? 'You'}: ${line}`;
  if (kind === 'call') return `${from}${shortName(line)} ${argsText(span?.args)}`.trimEnd();
  return from + line;
}

/** The arguments of a call on one line: `metformin eGFR 38` for one string, else JSON. */
export function argsText(args: unknown): string {
  if (args === undefined || args === null) return '';
  const values = typeof args === 'object' ? Object.values(args) : [args];
  if (values.length === 0) return '';
  const [only] = values;
  const text = values.length === 1 && typeof only === 'string' ? `“${only}”` : JSON.stringify(args);
  return text.slice(0, LINE_CHARS);
}

/** One line about a durable step. */
export function stepText(entry: Extract<Entry, { readonly type: 'step.stored' }>): string {
  const { id, kind, status, attempt = 1, ms, until, error } = entry;
  const name = kind === 'step' ? `Step ${id}` : kind === 'sleep' ? `Sleep ${id}` : `Event ${id}`;
  const at = until === undefined ? '' : new Date(until).toLocaleTimeString();
  switch (status) {
    case 'started':
      return `${name}: running`;
    case 'waiting':
      return kind === 'sleep' ? `${name}: until ${at}` : `${name}: waiting`;
    case 'retrying':
      return `${name}: attempt ${attempt} failed (${error?.code ?? 'unknown'}), next at ${at}`;
    case 'completed':
      return `${name}: done${ms === undefined ? '' : ` in ${duration(ms)}`}`;
    case 'failed':
      return `${name}: failed (${error?.code ?? 'unknown'})`;
  }
}
