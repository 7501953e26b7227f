import { z } from 'zod';
import { BriefingGenerationError } from './errors.ts';
import type { Source } from './sources.ts';

export interface Finding {
  readonly finding: string;
  readonly citations: readonly string[];
}
export interface MedicationConcern {
  readonly kind:
    | 'interaction'
    | 'renal-dosing'
    | 'allergy'
    | 'pregnancy'
    | 'older-adult'
    | 'monitoring'
    | 'precaution';
  readonly medications: readonly string[];
  readonly concern: string;
  readonly severity: 'moderate' | 'high';
  readonly citations: readonly string[];
}
export interface SuggestedAction {
  readonly action: string;
  readonly priority: 'routine' | 'soon' | 'urgent';
  readonly citations: readonly string[];
}
export interface Screening {
  readonly screening: string;
  readonly reason: string;
  readonly citations: readonly string[];
}

/** A briefing for a clinician before a visit. Every statement of a guideline names its source. */
export interface PatientBriefing {
  readonly summary: string;
  readonly findings: readonly Finding[];
  readonly medicationSafety: readonly MedicationConcern[];
  readonly suggestedActions: readonly SuggestedAction[];
  readonly screenings: readonly Screening[];
  readonly citations: readonly { readonly id: string; readonly title: string }[];
  readonly disclaimer: string;
}

const ids = z.array(z.string()).describe('Ids of sources that were returned');
const evidence = ids.min(1);

export const PatientBriefing: z.ZodType<PatientBriefing> = z.strictObject({
  summary: z.string().min(1),
  findings: z
    .array(z.strictObject({ finding: z.string().min(1), citations: ids }))
    .describe('What stands out in the record; citations may be empty'),
  medicationSafety: z.array(
    z.strictObject({
      kind: z.enum([
        'interaction',
        'renal-dosing',
        'allergy',
        'pregnancy',
        'older-adult',
        'monitoring',
        'precaution',
      ]),
      medications: z.array(z.string()).min(1),
      concern: z.string().min(1),
      severity: z.enum(['moderate', 'high']),
      citations: evidence,
    }),
  ),
  suggestedActions: z.array(
    z.strictObject({
      action: z.string().min(1),
      priority: z.enum(['routine', 'soon', 'urgent']),
      citations: evidence,
    }),
  ),
  screenings: z.array(
    z.strictObject({
      screening: z.string().min(1),
      reason: z.string().min(1),
      citations: evidence,
    }),
  ),
  citations: z
    .array(z.strictObject({ id: z.string(), title: z.string() }))
    .min(1)
    .describe('Every source that is cited above, once'),
  disclaimer: z.string().min(1).describe('Says that this is educational and not medical advice'),
});

/**
 * Validates a briefing: it must match the schema and cite only sources that a search of this run
 * returned. Throws `NO_STRUCTURED_OUTPUT`, `INVALID_OUTPUT` or `UNRESOLVED_CITATION`.
 */
export function checkBriefing(output: unknown, returned: readonly Source[]): PatientBriefing {
  if (output === undefined || output === null)
    throw new BriefingGenerationError(
      'NO_STRUCTURED_OUTPUT',
      'the agent ended without a briefing: its result has no structured output',
    );
  const parsed = PatientBriefing.safeParse(output);
  if (!parsed.success)
    throw new BriefingGenerationError(
      'INVALID_OUTPUT',
      `the output of the agent is not a valid briefing: ${z.prettifyError(parsed.error)}`,
      { cause: parsed.error },
    );
  const { data } = parsed;
  const known = new Set(returned.map(({ id }) => id));
  const listed = new Set(data.citations.map(({ id }) => id));
  const used = [data.findings, data.medicationSafety, data.suggestedActions, data.screenings]
    .flat()
    .flatMap(({ citations }) => citations);
  const invented = [...listed, ...used].filter((id) => !known.has(id));
  if (invented.length > 0)
    throw new BriefingGenerationError(
      'UNRESOLVED_CITATION',
      `the briefing cites what no search returned: ${[...new Set(invented)].join(', ')}`,
    );
  const unlisted = used.filter((id) => !listed.has(id));
  if (unlisted.length > 0)
    throw new BriefingGenerationError(
      'UNRESOLVED_CITATION',
      `the briefing's list of citations lacks ${[...new Set(unlisted)].join(', ')}`,
    );
  return data;
}
