import { z } from 'zod';
import { BriefingGenerationError } from './errors.ts';
import { analyteOf } from './labs.ts';

export interface Medication {
  readonly name: string;
  readonly dose?: string | undefined;
}
export interface Lab {
  readonly name: string;
  readonly value: number;
  readonly unit?: string | undefined;
  readonly date?: string | undefined;
}
export interface Allergy {
  readonly substance: string;
  readonly reaction?: string | undefined;
}
export interface Vitals {
  readonly systolic?: number | undefined;
  readonly diastolic?: number | undefined;
  readonly heartRate?: number | undefined;
  readonly temperatureC?: number | undefined;
  readonly oxygenSaturation?: number | undefined;
  readonly weightKg?: number | undefined;
  readonly heightCm?: number | undefined;
}

/** The data of a patient that a briefing needs, without anything that identifies the person. */
export interface PatientRecord {
  /** The title of the record in a list, never the name of the patient. */
  readonly name?: string | undefined;
  readonly age: number;
  readonly sex: 'female' | 'male';
  readonly pregnant?: boolean | undefined;
  readonly smoking?:
    | { readonly status: 'never' | 'former' | 'current'; readonly packYears?: number | undefined }
    | undefined;
  readonly conditions: readonly string[];
  readonly medications: readonly Medication[];
  readonly labs: readonly Lab[];
  readonly allergies: readonly Allergy[];
  readonly vitals?: Vitals | undefined;
}

const words = z.string().trim().min(1).max(200);

const LabSchema = z
  .strictObject({
    name: words,
    value: z.number(),
    unit: z.string().max(40).optional(),
    date: z.iso.date().optional(),
  })
  .superRefine(({ name, value, unit }, ctx) => {
    const known = analyteOf(name);
    if (!known) return;
    const { possible, units } = known;
    if (unit !== undefined && !units.includes(unit))
      ctx.addIssue({
        code: 'custom',
        path: ['unit'],
        message: `${known.name} is read in ${units.filter(Boolean)[0] ?? 'no unit'}, not in ${unit}`,
      });
    else if (value < possible[0] || value > possible[1])
      ctx.addIssue({
        code: 'custom',
        path: ['value'],
        message:
          `${known.name} ${value} is impossible: expected ${possible[0]} to ${possible[1]} ${units[0] ?? ''}`.trim(),
      });
  });

/** Two values of one kind need dates, because the latest one counts. */
function refuseUndated(labs: readonly Lab[], ctx: z.RefinementCtx): void {
  labs.forEach(({ name, value, date }, at) => {
    const known = analyteOf(name)?.name;
    const other = labs
      .slice(0, at)
      .find((lab) => known !== undefined && analyteOf(lab.name)?.name === known);
    if (other && other.value !== value && (date === undefined || other.date === undefined))
      ctx.addIssue({
        code: 'custom',
        path: [at],
        message: `${known} is there twice with different values: give each its date`,
      });
  });
}

const VitalsSchema = z
  .strictObject({
    systolic: z.number().min(40).max(300),
    diastolic: z.number().min(20).max(200),
    heartRate: z.number().min(15).max(300),
    temperatureC: z.number().min(25).max(45),
    oxygenSaturation: z.number().min(30).max(100),
    weightKg: z.number().min(0.3).max(500),
    heightCm: z.number().min(20).max(260),
  })
  .partial()
  .refine(
    ({ systolic, diastolic }) =>
      systolic === undefined || diastolic === undefined || systolic > diastolic,
    { path: ['systolic'], message: 'systolic pressure must be above the diastolic one' },
  );

/** Strict: an unknown field is an error, because the briefing would ignore it. */
export const PatientRecord: z.ZodType<PatientRecord> = z
  .strictObject({
    name: words.optional().describe('A label for lists, not the name of a person'),
    age: z.number().int().min(0).max(120).describe('Years'),
    sex: z.enum(['female', 'male']),
    pregnant: z.boolean().optional(),
    smoking: z
      .strictObject({
        status: z.enum(['never', 'former', 'current']),
        packYears: z.number().min(0).max(300).optional(),
      })
      .optional(),
    conditions: z.array(words).max(50).describe('Diagnoses and complaints'),
    medications: z
      .array(z.strictObject({ name: words, dose: z.string().max(100).optional() }))
      .max(50),
    labs: z.array(LabSchema).max(100).superRefine(refuseUndated).describe('Latest values'),
    allergies: z
      .array(z.strictObject({ substance: words, reaction: z.string().max(200).optional() }))
      .max(30),
    vitals: VitalsSchema.optional(),
  })
  .refine(({ sex, pregnant }) => !(pregnant && sex === 'male'), {
    path: ['pregnant'],
    message: 'a male patient cannot be pregnant',
  });

/** A limit far above the size of real records. */
const MAX_CHARS = 200_000;
const MAX_SAID = 1000;

/** Parses a record from JSON text or data. Throws `INVALID_RECORD` with all problems. */
export function readRecord(input: unknown): PatientRecord {
  const parsed = PatientRecord.safeParse(typeof input === 'string' ? parseJson(input) : input);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => {
    const place = path.join('.');
    return place === '' ? message : `${place}: ${message}`;
  });
  const said = problems.join('; ');
  throw new BriefingGenerationError(
    'INVALID_RECORD',
    `the patient record is not valid: ${said.length > MAX_SAID ? `${said.slice(0, MAX_SAID)} …` : said}`,
  );
}

function parseJson(text: string): unknown {
  if (text.length > MAX_CHARS)
    throw new BriefingGenerationError(
      'INVALID_RECORD',
      `the patient record has ${text.length} characters, more than the ${MAX_CHARS} allowed`,
    );
  try {
    return JSON.parse(text);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new BriefingGenerationError('INVALID_RECORD', `the patient record is not JSON: ${why}`, {
      cause,
    });
  }
}
