import { ANALYTES } from '../labs.ts';

/** A number that a sentence makes its advice depend on: `eGFR is below 30`, `aged 65 and older`. */
export interface Condition {
  readonly of: string;
  readonly holds: (value: number) => boolean;
  /** The position of its end in the sentence. */
  readonly end: number;
}

/** A part of a sentence with its conditions. */
export interface Segment {
  readonly text: string;
  readonly conditions: readonly Condition[];
}

const NAMES: readonly (readonly [string, RegExp])[] = [
  ...ANALYTES.map(({ name, aliases }): readonly [string, RegExp] => [
    name,
    new RegExp(
      `(?<![\\w-])(?:${aliases
        .filter((each) => each.length > 2 || each === 'b12')
        .map(escaped)
        .join('|')})(?![\\w-])`,
      'gi',
    ),
  ]),
  ['body mass index', /\bbody mass index\b/gi],
  ['heart rate', /\bheart rate\b/gi],
  ['saturation', /\bsaturation\b/gi],
  ['weight', /\bweight (?=\d)/gi],
  ['systolic', /\bsystolic pressure\b/gi],
];

const AGE: readonly (readonly [RegExp, (low: number, high: number) => (age: number) => boolean])[] =
  [
    [
      /(?:aged|from age|age|from) (\d+) (?:to|and) (\d+)(?: years)?(?! (?:mmHg|percent|weeks|mg))/gi,
      (a, b) => (age) => age >= a && age <= b,
    ],
    [/between (\d+) and (\d+)(?= with| years)/gi, (a, b) => (age) => age >= a && age <= b],
    [
      /(?:aged?|people of|women of|(?<!immunocompromised )adults of|persons of|men of|those of) (\d+) (?:and|or) (?:older|over)/gi,
      (a) => (age) => age >= a,
    ],
    [/over (\d+) years of age/gi, (a) => (age) => age > a],
    [/under (\d+) years of age/gi, (a) => (age) => age < a],
    [/(?:women|men|people) of (\d+) and younger/gi, (a) => (age) => age <= a],
    [/\bolder (?:people|adults|women)\b/gi, () => (age) => age >= 65],
  ];

const NUMBER = String.raw`(\d+(?:\.\d+)?)`;
const UNIT = String.raw`\s*(?:percent|%|mg/dL|mg/g|pg/mL|ng/mL|kg|mmHg)?`;
/** Units after a number that measures time or a dose, not the patient. */
const NOT_A_VALUE =
  /^\s*(?:minutes?|hours?|days?|weeks?|months?|years?|mg\b(?!\/)|g\b|units?|doses?|times|MME|morphine|a (?:day|year)|in a day|pack)/i;

const COMPARED: readonly (readonly [
  RegExp,
  (a: number, b: number) => (value: number) => boolean,
])[] = [
  [new RegExp(`${NUMBER} to ${NUMBER}`, 'gi'), (a, b) => (value) => value >= a && value <= b],
  [
    new RegExp(`between ${NUMBER} and ${NUMBER}`, 'gi'),
    (a, b) => (value) => value >= a && value <= b,
  ],
  [new RegExp(`(?:below|under|less than) ${NUMBER}`, 'gi'), (a) => (value) => value < a],
  [new RegExp(`(?:above|more than) ${NUMBER}`, 'gi'), (a) => (value) => value > a],
  [new RegExp(`${NUMBER}${UNIT} or (?:more|over)`, 'gi'), (a) => (value) => value >= a],
  [new RegExp(`${NUMBER}${UNIT} or less`, 'gi'), (a) => (value) => value <= a],
];

/**
 * "most of all when …" only adds emphasis, and "aim for below 7" is a goal: neither is a condition.
 */
const EMPHASIS = /,? (?:most of all|most often|particularly|especially|chiefly)\b[^.;]*/gi;
const GOAL = /\b(?:goals?|aim|target|should fall)\b/i;

/** Replaces such parts of a sentence by spaces, so that positions stay valid. */
export const withoutAsides = (sentence: string): string =>
  sentence.replace(EMPHASIS, (aside) => ' '.repeat(aside.length));

/**
 * The conditions of a sentence in their order. `before` is what an earlier sentence was about, for
 * "below 30" alone.
 */
export function conditionsIn(
  sentence: string,
  before?: string,
): { readonly found: readonly Condition[]; readonly about?: string } {
  const found: (Condition & { readonly start: number })[] = [];
  let rest = withoutAsides(sentence);
  const blank = (start: number, end: number): void => {
    rest = rest.slice(0, start) + ' '.repeat(end - start) + rest.slice(end);
  };
  for (const [shape, make] of AGE) {
    for (const match of rest.matchAll(shape)) {
      const end = match.index + match[0].length;
      found.push({
        of: 'age',
        holds: make(Number(match[1]), Number(match[2])),
        start: match.index,
        end,
      });
    }
    for (const { start, end } of found) blank(start, end);
  }
  for (const match of rest.matchAll(/(\d+) pack-years/gi))
    found.push({
      of: 'pack-years',
      holds: (value) => value >= Number(match[1]),
      start: match.index,
      end: match.index + match[0].length,
    });
  const names = NAMES.flatMap(([name, shape]) =>
    Array.from(sentence.matchAll(shape), ({ index }) => ({ name, index })),
  ).toSorted((a, b) => a.index - b.index);
  for (const [shape, make] of GOAL.test(sentence) ? [] : COMPARED) {
    for (const match of rest.matchAll(shape)) {
      const end = match.index + match[0].length;
      if (NOT_A_VALUE.test(rest.slice(end))) continue;
      const of = names.findLast(({ index }) => index < end)?.name ?? before;
      if (of !== undefined)
        found.push({
          of,
          holds: make(Number(match[1]), Number(match[2])),
          start: match.index,
          end,
        });
      blank(match.index, end);
    }
  }
  const about = names.at(-1)?.name ?? before;
  return { found: found.toSorted((a, b) => a.end - b.end), ...(about !== undefined && { about }) };
}

/** Splits a sentence after each condition that is followed by `and`, `or` or a semicolon. */
export function segmentsOf(sentence: string, conditions: readonly Condition[]): readonly Segment[] {
  if (/\b(?:two|three) of\b/i.test(sentence)) return [{ text: sentence, conditions }];
  const segments: Segment[] = [];
  let from = 0;
  let open: Condition[] = [];
  for (const condition of conditions) {
    open.push(condition);
    if (!/^[^.;,]{0,20}(?:;|,? (?:and|or)\b)/.test(sentence.slice(condition.end))) continue;
    segments.push({ text: sentence.slice(from, condition.end), conditions: open });
    from = condition.end;
    open = [];
  }
  return [...segments, { text: sentence.slice(from), conditions: open }];
}

export type Verdict = 'holds' | 'fails' | 'open';

/**
 * Whether the patient meets the conditions. One is enough, unless the sentence requires a number of
 * them ("two of three"). A known measured value takes precedence over the age.
 */
export function verdict(
  { text, conditions }: Segment,
  valueOf: (name: string) => number | undefined,
): Verdict {
  const known = conditions.flatMap(({ of, holds }) => {
    const value = valueOf(of);
    return value === undefined ? [] : [{ of, met: holds(value) }];
  });
  const counts = /\btwo of\b/i.test(text);
  const measured = known.filter(({ of }) => of !== 'age');
  const deciding = measured.length > 0 && !counts ? measured : known;
  if (deciding.filter(({ met }) => met).length >= (counts ? 2 : 1)) return 'holds';
  return deciding.length > 0 ? 'fails' : 'open';
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
