import { expect, test } from 'vitest';
import { BriefingGenerationError } from './errors.ts';
import { readRecord } from './record.ts';

const base = { age: 50, sex: 'female', conditions: [], medications: [], labs: [], allergies: [] };

test.each<readonly [string, unknown, RegExp]>([
  ['broken JSON', '{"age": 50', /is not JSON/],
  ['no object', '[]', /expected object/],
  ['an unknown field', { ...base, ssn: '1' }, /Unrecognized key: "ssn"/],
  ['a missing field', { age: 50 }, /sex: .*conditions: /],
  [
    'an impossible potassium',
    { ...base, labs: [{ name: 'K', value: 45 }] },
    /labs\.0\.value: potassium 45 is impossible: expected 1.2 to 10 mmol\/L/,
  ],
  ['an impossible age', { ...base, age: 130 }, /age: /],
  [
    'an unknown unit',
    { ...base, labs: [{ name: 'HbA1c', value: 53, unit: 'mmol/mol' }] },
    /HbA1c is read in %, not in mmol\/mol/,
  ],
  [
    'swapped blood pressures',
    { ...base, vitals: { systolic: 70, diastolic: 120 } },
    /vitals\.systolic: systolic pressure must be above/,
  ],
  [
    'two values without a date',
    {
      ...base,
      labs: [
        { name: 'eGFR', value: 90 },
        { name: 'GFR', value: 25, date: '2025-01-01' },
      ],
    },
    /labs\.1: eGFR is there twice with different values: give each its date/,
  ],
  ['a pregnant man', { ...base, sex: 'male', pregnant: true }, /cannot be pregnant/],
  ['a novel', `"${'x'.repeat(200_001)}"`, /more than the 200000 allowed/],
])('%s is refused with INVALID_RECORD and the reason', (_, input, message) => {
  expect(() => readRecord(input)).toThrow(message);
  expect(() => readRecord(input)).toThrow(BriefingGenerationError);
});

test('the error message is short, even with many problems', () => {
  const fields = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`k${i}`, i]));
  const labs = Array.from({ length: 90 }, () => ({ name: 'K', value: 99 }));
  for (const input of [
    { ...base, ...fields },
    { ...base, labs },
  ]) {
    let message = '';
    try {
      readRecord(input);
    } catch (error) {
      ({ message } = error as Error);
    }
    expect(message).toMatch(/not valid: (Unrecognized keys: "k0"|labs\.0\.value: potassium 99)/);
    expect(message.length).toBeLessThan(1100);
  }
});

test('a record may be text or data, and may have unknown values', () => {
  const record = { ...base, labs: [{ name: 'serum amyloid A', value: 12 }] };
  expect(readRecord(JSON.stringify(record))).toEqual(readRecord(record));
});
