import { isObject } from '../../src/json.ts';

/** A passage that an answer may cite by its id. */
export interface Source {
  readonly id: string;
  readonly title: string;
  readonly section?: string;
  readonly text: string;
}

const MAX_DEPTH = 8;
const ELEMENT = /<source\b([^>]*)>([\s\S]*?)<\/source>/g;
const ATTRIBUTE = /([\w-]+)="([^"]*)"/g;
const ENTITIES: Readonly<Record<string, string>> = {
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&amp;': '&',
};

/**
 * The passages in what a tool answered: `<source id title section>` elements in any text of it, and
 * objects with `id` and `text`. Whatever else is there is passed over.
 */
export function* sourcesIn(value: unknown, depth = 0): Generator<Source, void, undefined> {
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

function* elements(text: string): Generator<Source, void, undefined> {
  for (const [, head = '', body = ''] of text.matchAll(ELEMENT)) {
    const { id, title, section } = Object.fromEntries(
      Array.from(head.matchAll(ATTRIBUTE), ([, name, given]) => [name, plain(given ?? '')]),
    ) as Record<string, string | undefined>;
    if (id) yield { id, title: title ?? id, text: plain(body), ...(section && { section }) };
  }
}

const plain = (text: string): string =>
  text.replace(/&(?:lt|gt|quot|amp);/g, (entity) => ENTITIES[entity] ?? entity);
