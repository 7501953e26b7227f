import { z } from 'zod';

/** An agent as data: enough to run it again. */
export interface DistillAgentSpec {
  readonly name: string;
  readonly purpose: string;
  readonly systemPrompt: string;
  readonly tools: readonly { readonly name: string; readonly purpose: string }[];
  readonly examples: readonly {
    readonly input: string;
    readonly output: string;
    readonly tools: readonly string[];
  }[];
}

const name = z.string().regex(/^[a-z][a-z0-9-]{1,39}$/, 'must be lower case words with hyphens');

/** The fields of a spec, each validated alone: the arguments of the tool. */
export const SpecFields: z.ZodType<DistillAgentSpec> = z.object({
  name: name.describe('Short name of the agent, such as "refund-clerk"'),
  purpose: z.string().min(1).describe('What it is for, in one sentence'),
  systemPrompt: z.string().min(1).describe('The instructions that make a model behave this way'),
  tools: z
    .array(
      z.object({
        name: z.string().min(1).describe('As it was called in the transcript'),
        purpose: z.string().min(1),
      }),
    )
    .max(50),
  examples: z
    .array(
      z.object({
        input: z.string().min(1),
        output: z.string().min(1),
        tools: z.array(z.string()).describe('Tools that were called for it, in order'),
      }),
    )
    .min(1, 'needs at least one example')
    .max(20),
});

/** The fields, validated together: the result of the example. */
export const DistillAgentSpec: z.ZodType<DistillAgentSpec> = SpecFields.superRefine(
  ({ tools, examples }, context) => {
    const known = new Set(tools.map((tool) => tool.name));
    if (known.size < tools.length)
      context.addIssue({ code: 'custom', path: ['tools'], message: 'names a tool twice' });
    for (const [index, example] of examples.entries()) {
      const missing = example.tools.find((tool) => !known.has(tool));
      if (missing !== undefined)
        context.addIssue({
          code: 'custom',
          path: ['examples', index, 'tools'],
          message: `uses ${missing}, which is not among the tools`,
        });
    }
  },
);
