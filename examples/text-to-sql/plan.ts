import { z } from 'zod';

/** How a question is answered: what the model, or the rules, hand over. */
export interface SqlPlan {
  /** In a sentence, what will be computed. */
  readonly explanation: string;
  readonly tables: readonly string[];
  /** A single SELECT. */
  readonly sql: string;
}

/** A plan; without SQL its explanation says why. */
export type PlanOrNone = SqlPlan | (Omit<SqlPlan, 'sql'> & { readonly sql: null });

export const PlanOrNone: z.ZodType<PlanOrNone> = z.object({
  explanation: z
    .string()
    .min(1)
    .describe('In one sentence, what the query computes, or why there can be none'),
  tables: z.array(z.string()).describe('Tables and views that it reads'),
  sql: z
    .string()
    .min(1)
    .nullable()
    .describe('A single SELECT in the dialect of DuckDB; null if the tables cannot answer'),
});
