import { isObject } from '../../../src/json.ts';

/** A passage that the agent may cite by its id. */
export interface CitedSource {
  readonly id: string;
  readonly title: string;
  readonly section?: string;
  readonly text: string;
}

const MAX_DEPTH = 8;
const OPEN = '<source ';
const CLOSE = '</source>';
const ENTITIES: Readonly<Record<string, string>> = {
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&amp;': '&',
};

/**
 * Yields the passages in a tool result: `<source id title section>` elements in its texts, and
 * objects with `id` and `text`. Everything else is skipped.
 */
export function* sourcesIn(value: unknown, depth = 0): Generator<CitedSource, void, undefined> {
  if (depth > MAX_DEPTH) return;
  if (typeof value === 'string') yield* elements(value);
  else if (Array.isArray(value)) for (const item of value) yield* sourcesIn(item, depth + 1);
  else if (isObject(value)) {
    const { id, text, title, section } = value;
    if (typeof id === 'string' && typeof text === 'string')
      yield {
        id,
        text,
        title: typeof title === 'string' ? title : id,
        ...(typeof section === 'string' && { section }),
      };
    else for (const inner of Object.values(value)) yield* sourcesIn(inner, depth + 1);
  }
}

function* elements(text: string): Generator<CitedSource, void, undefined> {
  for (const { head, body } of pairs(text)) {
    const attributes = new Map(attributesIn(head));
    const id = attributes.get('id');
    const title = attributes.get('title');
    const section = attributes.get('section');
    if (id) yield { id, title: title ?? id, text: unescape(body), ...(section && { section }) };
  }
}

/** Yields each `name="value"` pair. */
function* attributesIn(head: string): Generator<readonly [string, string]> {
  for (let from = 0; ;) {
    const equals = head.indexOf('="', from);
    const end = equals === -1 ? -1 : head.indexOf('"', equals + 2);
    if (end === -1) return;
    const name = head.slice(from, equals).trim();
    yield [name, unescape(head.slice(equals + 2, end))];
    from = end + 1;
  }
}

/**
 * Yields each complete element. `indexOf` keeps this linear: for many opening tags without a
 * closing one, a regular expression would search to the end of the text from each of them.
 */
function* pairs(text: string): Generator<{ readonly head: string; readonly body: string }> {
  for (let from = text.indexOf(OPEN); from !== -1;) {
    const end = text.indexOf('>', from);
    const close = end === -1 ? -1 : text.indexOf(CLOSE, end);
    if (close === -1) return;
    yield { head: text.slice(from + OPEN.length, end), body: text.slice(end + 1, close) };
    from = text.indexOf(OPEN, close);
  }
}

const unescape = (text: string): string =>
  text.replace(/&(?:lt|gt|quot|amp);/g, (entity) => ENTITIES[entity] ?? entity);
