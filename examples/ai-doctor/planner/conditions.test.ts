import { describe, expect, test } from 'vitest';
import { conditionsIn, segmentsOf, verdict, type Verdict } from './conditions.ts';

/** The result of each part of a sentence for a patient with these values. */
function judge(
  sentence: string,
  values: Readonly<Record<string, number>>,
  before?: string,
): readonly Verdict[] {
  const { found } = conditionsIn(sentence, before);
  return segmentsOf(sentence, found)
    .filter(({ conditions }) => conditions.length > 0)
    .map((segment) => verdict(segment, (name) => values[name]));
}

describe('conditions in a sentence', () => {
  test.each<readonly [string, Readonly<Record<string, number>>, readonly Verdict[]]>([
    ['Avoid dabigatran when eGFR is below 30.', { eGFR: 29 }, ['holds']],
    ['Avoid dabigatran when eGFR is below 30.', { eGFR: 30 }, ['fails']],
    ['Avoid dabigatran when eGFR is below 30.', {}, ['open']],
    [
      'Do not start it when eGFR is 30 to 45; if eGFR falls below 45, halve it.',
      { eGFR: 45 },
      ['holds', 'fails'],
    ],
    [
      'Halve the dose when potassium is above 5.5 and stop it when potassium is above 6.0.',
      { potassium: 5.7 },
      ['holds', 'fails'],
    ],
    ['Screen adults aged 35 to 70.', { age: 71 }, ['fails']],
    ['In people aged 65 and older avoid regular NSAIDs.', { age: 65 }, ['holds']],
    [
      'Glyburide causes low sugar in people aged 65 and older, most of all when eGFR is below 60.',
      { age: 70, eGFR: 90 },
      ['holds'],
    ],
    [
      'Reduce apixaban when two of three are present: age 80 or over, weight 60 kg or less, serum creatinine 1.5 mg/dL or more.',
      { age: 83, weight: 80, creatinine: 1.6 },
      ['holds'],
    ],
    [
      'Reduce apixaban when two of three are present: age 80 or over, weight 60 kg or less, serum creatinine 1.5 mg/dL or more.',
      { age: 83, weight: 80, creatinine: 1.0 },
      ['fails'],
    ],
    [
      'Treat when TSH is above 10, in pregnancy, or with clear symptoms under 65 years of age.',
      { TSH: 3, age: 40 },
      ['fails'],
    ],
  ])('%s %j', (sentence, values, expected) => {
    expect(judge(sentence, values)).toEqual(expected);
  });

  test('goals, times and doses are not conditions', () => {
    expect(conditionsIn('Aim for an HbA1c below 7 percent.').found).toEqual([]);
    expect(
      conditionsIn('Chest pain over 15 minutes, potassium checked for more than 3 days.').found,
    ).toEqual([]);
    expect(conditionsIn('Do not raise sodium by more than 8 in a day.').found).toEqual([]);
  });

  test('a number alone belongs to the subject of the sentence before', () => {
    expect(judge('Metformin is contraindicated below 30.', { eGFR: 24 }, 'eGFR')).toEqual([
      'holds',
    ]);
    expect(judge('Metformin is contraindicated below 30.', { eGFR: 24 })).toEqual([]);
  });
});
