import fc from 'fast-check';
import { isObject } from '../../src/json.ts';

/** Values that often break parsers: of the wrong type, too large, too deep, or misleading. */
const HOSTILE: readonly unknown[] = [
  null,
  true,
  '',
  0,
  -1,
  0.5,
  2 ** 53,
  -(2 ** 63),
  1e308,
  'x'.repeat(5000),
  '\ud800',
  '\\'.repeat(2000),
  '\u0000',
  '\r\n\r\n',
  '__proto__',
  'constructor',
  '../../etc/passwd',
  '%2e%2e%2f',
  '%',
  'data:' + 'a'.repeat(2000),
  [],
  [[]],
  {},
  [null],
  { toString: 1, valueOf: 1 },
  { length: 2 ** 32 },
  JSON.parse('{"__proto__":{"polluted":1}}'),
  JSON.parse('{"constructor":{"prototype":{"polluted":1}}}'),
  JSON.parse(`${'['.repeat(600)}${']'.repeat(600)}`),
];

const hostile: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom(...HOSTILE),
  fc.jsonValue({ maxDepth: 3 }),
  fc.string({ unit: 'binary', maxLength: 40 }),
);

interface Edit {
  readonly at: number;
  readonly kind: 'replace' | 'remove' | 'add' | 'repeat';
  readonly name: string;
  readonly value: unknown;
}

const edit: fc.Arbitrary<Edit> = fc.record({
  at: fc.nat(1000),
  kind: fc.constantFrom('replace', 'replace', 'remove', 'add', 'repeat'),
  name: fc.constantFrom('__proto__', 'constructor', 'toString', 'id', 'x', ''),
  value: hostile,
});

/**
 * One of the templates, with up to four of its values replaced, removed, doubled or joined by
 * others.
 */
export function mutated(templates: readonly unknown[]): fc.Arbitrary<unknown> {
  return fc
    .tuple(fc.constantFrom(...templates), fc.array(edit, { maxLength: 4 }))
    .map(([template, edits]) => edits.reduce(apply, structuredClone(template)));
}

/** The same as text, sometimes cut or with a character changed. */
export function mutatedText(templates: readonly unknown[]): fc.Arbitrary<string> {
  const damage = fc.option(fc.record({ at: fc.nat(2000), by: fc.string({ maxLength: 3 }) }), {
    freq: 4,
  });
  return fc.tuple(mutated(templates), damage).map(([value, broken]) => {
    const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'null');
    if (!broken) return text;
    const at = broken.at % (text.length + 1);
    return text.slice(0, at) + broken.by + text.slice(at + 1);
  });
}

function apply(whole: unknown, { at, kind, name, value: given }: Edit): unknown {
  const value = structuredClone(given); // a shared value could become part of itself
  const places = placesOf(whole);
  const place = places[at % (places.length + 1)];
  if (place === undefined) return kind === 'replace' ? value : whole;
  const { holder, key } = place;
  if (kind === 'replace') define(holder, key, value);
  else if (kind === 'remove') Reflect.deleteProperty(holder, key);
  else if (Array.isArray(holder))
    holder.push(kind === 'add' ? value : structuredClone(holder[Number(key)]));
  else if (kind === 'add') define(holder, name, value);
  return whole;
}

/** Defines the member: an assignment to `__proto__` would set the prototype instead. */
const define = (holder: object, key: string, value: unknown): boolean =>
  Reflect.defineProperty(holder, key, {
    value,
    writable: true,
    enumerable: true,
    configurable: true,
  });

function placesOf(value: unknown, depth = 0): { holder: object; key: string }[] {
  if (depth > 20 || !(Array.isArray(value) || isObject(value))) return [];
  return Object.keys(value).flatMap((key) => [
    { holder: value, key },
    ...placesOf((value as Record<string, unknown>)[key], depth + 1),
  ]);
}
