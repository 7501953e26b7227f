import { type Analyte, analyteOf } from '../labs.ts';
import type { PatientRecord } from '../record.ts';
import {
  allergyTerms,
  className,
  conditionName,
  conditionTerms,
  drugNames,
  drugTerms,
} from './lexicon.ts';

export interface Drug {
  readonly name: string;
  readonly className: string;
  readonly terms: readonly string[];
}

export interface Abnormal {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly direction: 'low' | 'high';
}

/** A record in the form for the planner: normalized names, values by name, values out of range. */
export interface Facts {
  readonly record: PatientRecord;
  readonly drugs: readonly Drug[];
  readonly conditions: readonly { readonly name: string; readonly terms: readonly string[] }[];
  /** Conditions that the record denies, or that only relatives have. */
  readonly notOwn: readonly string[];
  readonly allergies: readonly { readonly substance: string; readonly terms: readonly string[] }[];
  readonly abnormal: readonly Abnormal[];
  readonly valueOf: (name: string) => number | undefined;
}

export function factsOf(record: PatientRecord): Facts {
  const { vitals = {}, smoking } = record;
  const values = new Map<string, number>([['age', record.age]]);
  const set = (name: string, value: number | undefined): void => {
    if (value !== undefined) values.set(name, value);
  };
  set('systolic', vitals.systolic);
  set('heart rate', vitals.heartRate);
  set('saturation', vitals.oxygenSaturation);
  set('weight', vitals.weightKg);
  set('pack-years', smoking?.status === 'never' ? 0 : smoking?.packYears);
  if (vitals.weightKg !== undefined && vitals.heightCm !== undefined)
    set('body mass index', vitals.weightKg / (vitals.heightCm / 100) ** 2);
  const abnormal: Abnormal[] = [];
  for (const [known, value] of latest(record)) {
    values.set(known.name, value);
    const [low, high] = known.usual;
    if (value < low || value > high)
      abnormal.push({
        name: known.name,
        value,
        unit: known.units[0] ?? '',
        direction: value < low ? 'low' : 'high',
      });
  }
  const stated = record.conditions.filter(isSomething);
  return {
    record,
    drugs: unique(
      record.medications
        .map(({ name }) => name)
        .filter(isSomething)
        .flatMap(drugNames),
    ).map((name) => ({
      name,
      className: className(name),
      terms: drugTerms(name),
    })),
    conditions: stated
      .filter((written) => !NOT_OWN.test(written))
      .map((written) => ({ name: conditionName(written), terms: conditionTerms(written) })),
    notOwn: stated.filter((written) => NOT_OWN.test(written)),
    allergies: record.allergies
      .filter(({ substance }) => isSomething(substance))
      .map(({ substance }) => ({ substance, terms: allergyTerms(substance) })),
    abnormal,
    valueOf: (name) => values.get(name),
  };
}

const NOT_OWN =
  /^(?:no|not|never|denies|without|negative for|family history|fh)\b|\b(?:ruled out|excluded)\b/i;

/** Some records have "none" in a list instead of an empty list. */
const isSomething = (written: string): boolean =>
  !/^(?:none|nil|n\/?a|nka|nkda|-+|no (?:known )?(?:drug )?(?:allerg|medication|condition)\w*)\.?$/i.test(
    written.trim(),
  );

/** The known values, of each kind the one with the latest date. */
function latest({ labs }: PatientRecord): ReadonlyMap<Analyte, number> {
  const values = new Map<Analyte, number>();
  for (const { name, value } of labs.toSorted((a, b) =>
    (a.date ?? '').localeCompare(b.date ?? ''),
  )) {
    const known = analyteOf(name);
    if (known) values.set(known, value);
  }
  return values;
}

const unique = <T>(values: readonly T[]): readonly T[] => [...new Set(values)];
