import { analyteOf } from '../labs.ts';
import type { PatientRecord } from '../record.ts';
import {
  allergyTerms,
  className,
  conditionName,
  conditionTerms,
  drugName,
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

/** A record as the planner reads it: names made equal, values by name, what is out of range. */
export interface Facts {
  readonly record: PatientRecord;
  readonly drugs: readonly Drug[];
  readonly conditions: readonly { readonly name: string; readonly terms: readonly string[] }[];
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
  for (const { name, value } of record.labs) {
    const known = analyteOf(name);
    if (!known) continue;
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
  return {
    record,
    drugs: unique(record.medications.map(({ name }) => drugName(name))).map((name) => ({
      name,
      className: className(name),
      terms: drugTerms(name),
    })),
    conditions: record.conditions.map((written) => ({
      name: conditionName(written),
      terms: conditionTerms(written),
    })),
    allergies: record.allergies.map(({ substance }) => ({
      substance,
      terms: allergyTerms(substance),
    })),
    abnormal,
    valueOf: (name) => values.get(name),
  };
}

const unique = <T>(values: readonly T[]): readonly T[] => [...new Set(values)];
