import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ModelServer, startModelServer } from '../../test/support/model-server.ts';
import { generateBriefing } from './briefing.ts';
import { SEARCH_TOOL_FULL } from './names.ts';
import type { PatientBriefing } from './patient-briefing.ts';
import { type Guidelines, openGuidelines } from './retrieval/guidelines.ts';
import { hashedEmbedder } from './retrieval/hashed.ts';
import { sampleText } from './samples.ts';
import { modelName } from './session.ts';

// The same agent with a scripted language model on loopback, over both APIs.

const home = mkdtempSync(join(tmpdir(), 'ai-doctor-'));
let guidelines: Guidelines;
beforeAll(async () => {
  guidelines = await openGuidelines({ embedder: hashedEmbedder });
});
afterAll(async () => {
  await guidelines[Symbol.asyncDispose]();
  rmSync(home, { recursive: true, force: true });
});

const citing = (id: string): PatientBriefing => ({
  summary: 'Metformin at an eGFR of 45.',
  findings: [],
  medicationSafety: [
    {
      kind: 'renal-dosing',
      medications: ['metformin'],
      concern: 'Consider halving the dose.',
      severity: 'moderate',
      citations: [id],
    },
  ],
  suggestedActions: [],
  screenings: [],
  citations: [{ id, title: 'Metformin and kidney function' }],
  disclaimer: 'Educational, not medical advice.',
});

const startModel = (id: string): Promise<ModelServer> =>
  startModelServer([
    {
      text: 'I search.',
      tools: [{ name: SEARCH_TOOL_FULL, input: { query: 'metformin renal dosing eGFR 45' } }],
    },
    { text: 'Done.', tools: [{ name: 'StructuredOutput', input: { ...citing(id) } }] },
  ]);

async function generate(env: Readonly<Record<string, string>>): Promise<PatientBriefing> {
  const own = { HOME: home, PATH: process.env['PATH'], ...env };
  return generateBriefing(await sampleText(), {
    guidelines,
    session: { env: own, model: modelName(own) },
  });
}

const APIS: Readonly<Record<string, (url: string) => Readonly<Record<string, string>>>> = {
  anthropic: (url) => ({ ANTHROPIC_API_KEY: 'dummy', ANTHROPIC_BASE_URL: url }),
  openai: (url) => ({
    OPENAI_BASE_URL: `${url}/v1`,
    OPENAI_MODEL: 'scripted',
    OPENAI_API_KEY: 'dummy',
  }),
};

test.each(Object.entries(APIS))(
  '%s: sends record, tool and schema, and gets a briefing',
  async (api, env) => {
    await using model = await startModel('dm-metformin-renal');
    expect(await generate(env(model.url))).toEqual(citing('dm-metformin-renal'));
    expect(model.calls.map((call) => call.api)).toEqual([api, api]);
    const [first, second] = model.calls.map(({ body }) => JSON.stringify(body));
    expect(first).toContain('Type 2 diabetes');
    expect(first).toContain(SEARCH_TOOL_FULL);
    expect(first).toContain('medicationSafety');
    expect(second).toContain('Metformin is contraindicated below 30');
  },
);

test('a briefing with an invented source is rejected', async () => {
  await using model = await startModel('made-up');
  const run = generate(APIS['openai']?.(model.url) ?? {});
  await expect(run).rejects.toMatchObject({
    code: 'UNRESOLVED_CITATION',
    message: expect.stringContaining('made-up'),
  });
});
