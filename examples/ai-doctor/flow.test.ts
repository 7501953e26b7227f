import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Frame } from 'duolane/event';
import type { SDKMessage, SessionOptions } from 'duolane/host';
import type { ToolRegistry } from 'duolane/mcp';
import { spawnProcess, type Transport } from 'duolane/process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { verifies } from '../../test/verifies.ts';
import { generateBriefing } from './briefing.ts';
import { SEARCH_TOOL, SEARCH_TOOL_FULL } from './names.ts';
import type { PatientBriefing } from './patient-briefing.ts';
import { readRecord } from './record.ts';
import { type Guidelines, openGuidelines } from './retrieval/guidelines.ts';
import { hashedEmbedder } from './retrieval/hashed.ts';
import { sampleText } from './samples.ts';
import { briefingServer } from './search.ts';
import { parseSources, wordsOf } from './sources.ts';

// With the real agent CLI in a separate process, and the planner as its model.

const home = mkdtempSync(join(tmpdir(), 'ai-doctor-'));
const env = { HOME: home, PATH: process.env['PATH'] };
let guidelines: Guidelines;
beforeAll(async () => {
  guidelines = await openGuidelines({ embedder: hashedEmbedder });
});
afterAll(async () => {
  await guidelines[Symbol.asyncDispose]();
  rmSync(home, { recursive: true });
});

type Launch = Parameters<NonNullable<SessionOptions['transport']>>[0];

interface Recorded {
  readonly briefing: PatientBriefing;
  readonly frames: readonly Frame[];
  readonly messages: readonly SDKMessage[];
  readonly launch: Launch;
  /** How many frames there were when stdin was closed. */
  readonly closedAfter: number;
  readonly exitCode: number | null;
}

async function record(name: string, session: object = {}): Promise<Recorded> {
  const frames: Frame[] = [];
  const messages: SDKMessage[] = [];
  let launched: Launch | undefined;
  let closedAfter = -1;
  let child: Transport | undefined;
  const briefing = await generateBriefing(await sampleText(name), {
    guidelines,
    onMessage: (message) => messages.push(message),
    session: {
      env,
      onFrame: (frame) => frames.push(frame),
      transport: (launch) => {
        launched = launch;
        const transport = spawnProcess(launch);
        child = transport;
        return {
          output: transport.output,
          exited: transport.exited,
          write: (text) => transport.write(text),
          drained: () => transport.drained(),
          endInput: () => {
            if (closedAfter === -1) closedAfter = frames.length;
            transport.endInput();
          },
          [Symbol.asyncDispose]: () => transport[Symbol.asyncDispose](),
        };
      },
      ...session,
    },
  });
  if (!launched || !child) throw new Error('no process was started');
  const { code } = await child.exited;
  return { briefing, frames, messages, launch: launched, closedAfter, exitCode: code };
}

/** The indexes of the frames that match. */
const places = (frames: readonly Frame[], wanted: (frame: Frame) => boolean): readonly number[] =>
  frames.flatMap((frame, at) => (wanted(frame) ? [at] : []));

const isCall = ({ lane, direction, data }: Frame): boolean =>
  lane === 'control' && direction === 'in' && JSON.stringify(data).includes('"tools/call"');

describe('a run through the agent CLI', () => {
  let run: Recorded;
  beforeAll(async () => {
    run = await record('diabetes-hypertension');
  });

  verifies(
    ['S212', 'S216', 'S217', 'S219', 'S222'],
    'performs the fourteen steps in order inside one query',
    async () => {
      const { frames, launch, closedAfter, briefing, exitCode } = run;
      // 1, 2: the record is given as a stream, to a CLI that reads one.
      const format = launch.args.indexOf('--input-format');
      expect(launch.args[format + 1]).toBe('stream-json');
      // 3: the record is the user's message.
      const [asked = -1] = places(
        frames,
        ({ lane, direction, data }) =>
          lane === 'message' && direction === 'out' && data['type'] === 'user',
      );
      const sent = readRecord(wordsOf(frames[asked]?.data['message']));
      expect(sent).toEqual(readRecord(await sampleText('diabetes-hypertension')));
      expect(sent.conditions).toEqual(['Type 2 diabetes', 'Hypertension']);
      // 5: the CLI starts its turn.
      const [started = -1] = places(
        frames,
        ({ data }) => data['type'] === 'system' && data['subtype'] === 'init',
      );
      expect(started).toBeGreaterThan(asked);
      // 6 to 9: several searches, each called over the control lane and answered with sources.
      const calls = places(frames, isCall);
      expect(calls.length).toBeGreaterThanOrEqual(3);
      const queries = calls.map((at) => {
        const { request_id: id, request } = (frames[at]?.data ?? {}) as {
          request_id: string;
          request: {
            server_name: string;
            message: { params: { name: string; arguments: { query: string } } };
          };
        };
        expect(request.server_name).toBe('briefing');
        expect(request.message.params.name).toBe(SEARCH_TOOL);
        const answers = places(
          frames,
          ({ direction, data }) =>
            direction === 'out' &&
            data['type'] === 'control_response' &&
            (data['response'] as { request_id?: string }).request_id === id,
        );
        expect(answers).toHaveLength(1);
        expect(answers[0]).toBeGreaterThan(at);
        expect(answers[0]).toBeLessThan(closedAfter); // 4: stdin was open for it
        const answer = frames[answers[0] ?? -1]?.data as {
          response: { response: { mcp_response: { result: unknown } } };
        };
        expect(
          parseSources(wordsOf(answer.response.response.mcp_response.result)).length,
        ).toBeGreaterThan(0);
        return request.message.params.arguments.query;
      });
      expect(queries.some((query) => /metformin.*eGFR 45/.test(query))).toBe(true);
      expect(queries.some((query) => /metformin.*ACE inhibitor.*interaction/.test(query))).toBe(
        true,
      );
      expect(queries.some((query) => query.includes('screening'))).toBe(true);
      // 10: the model writes; 11: one result with the briefing in it.
      const written = places(
        frames,
        ({ direction, data }) =>
          direction === 'in' &&
          data['type'] === 'assistant' &&
          JSON.stringify(data).includes('"text"'),
      );
      const results = places(frames, ({ data }) => data['type'] === 'result');
      expect(results).toHaveLength(1);
      expect(written.at(-1)).toBeGreaterThan(calls.at(-1) ?? Infinity);
      expect(written.at(-1)).toBeLessThan(results[0] ?? -1);
      expect(frames[results[0] ?? -1]?.data['structured_output']).toEqual(briefing);
      // 12: only then stdin closes; 13: the app has validated it; 14: the CLI exits.
      expect(closedAfter).toBeGreaterThan(results[0] ?? Infinity);
      expect(exitCode).toBe(0);
    },
  );

  verifies(
    ['S218'],
    'returns a briefing whose citations were all found, and flags metformin at eGFR 45',
    () => {
      const { briefing, messages } = run;
      const returned = new Set(
        messages.flatMap((message) =>
          message.type === 'user' ? parseSources(wordsOf(message.message)).map(({ id }) => id) : [],
        ),
      );
      expect(briefing.citations.length).toBeGreaterThan(3);
      expect(briefing.citations.filter(({ id }) => !returned.has(id))).toEqual([]);
      expect(briefing.medicationSafety).toContainEqual(
        expect.objectContaining({
          kind: 'renal-dosing',
          medications: ['metformin'],
          citations: ['dm-metformin-renal'],
        }),
      );
    },
  );
});

test.each(['pregnancy-ace-inhibitor', 'unknown-medicine'])(
  '%s: the process returns a briefing too',
  async (name) => {
    const { briefing, exitCode } = await record(name);
    expect(briefing.citations.length).toBeGreaterThan(0);
    expect(briefing.medicationSafety.some(({ kind }) => kind === 'pregnancy')).toBe(
      name.startsWith('pregnancy'),
    );
    expect(exitCode).toBe(0);
  },
);

verifies('S215', 'a model that never ends is stopped after four turns', async () => {
  const script = join(home, 'endless.json');
  const answer = { repeat: true, tools: [{ name: SEARCH_TOOL_FULL, input: { query: 'x' } }] };
  writeFileSync(script, JSON.stringify([answer]));
  const messages: SDKMessage[] = [];
  const run = generateBriefing(await sampleText(), {
    guidelines,
    onMessage: (message) => messages.push(message),
    session: { env, model: `script:${script}` },
  });
  await expect(run).rejects.toMatchObject({
    code: 'AGENT_ERROR',
    message: expect.stringContaining('error_max_turns'),
  });
  const answers = messages.filter(({ type }) => type === 'assistant');
  expect(answers).toHaveLength(4);
});

test('a CLI that exits before its result is CLI_CONNECTION_ERROR', async () => {
  const run = generateBriefing(await sampleText(), {
    guidelines,
    session: { env, executableArgs: ['-e', 'process.exit(3)'] },
  });
  await expect(run).rejects.toMatchObject({ code: 'CLI_CONNECTION_ERROR' });
});

verifies(
  ['S213', 'S214'],
  'the tool embeds the query, searches vectors and words, and returns XML',
  async () => {
    const embedded: string[] = [];
    await using watched = await openGuidelines({
      embedder: {
        ...hashedEmbedder,
        id: 'watched',
        async embed(texts, kind, signal) {
          if (kind === 'document') return hashedEmbedder.embed(texts, kind, signal);
          embedded.push(...texts);
          // Near a passage that has no word of the second query: only the vectors can find it.
          return hashedEmbedder.embed(['Gout: gout, urate, allopurinol'], kind, signal);
        },
      },
    });
    const { name, instance } = briefingServer(watched);
    expect(name).toBe('briefing');
    const registry = instance as ToolRegistry;
    expect(registry.info).toMatchObject({ name: 'briefing', version: '1.0.0' });
    const tools = [];
    for await (const tool of registry.listTools()) tools.push(tool);
    expect(tools).toMatchObject([
      {
        name: SEARCH_TOOL,
        annotations: { readOnlyHint: true },
        inputSchema: { required: ['query'] },
      },
    ]);
    const ask = async (query: string): Promise<string> => {
      const call = { id: 'c1', name: SEARCH_TOOL, args: { query } };
      for await (const event of registry.callTool(call))
        if (event.type === 'result') return wordsOf(event.result.content);
      throw new Error('the tool gave no result');
    };
    const text = await ask('metformin renal dosing eGFR 45');
    expect(text).toMatch(
      /^<source id="[^"]+" title="[^"]+" section="[^"]+">[^<]+<\/source>(\n<source [^<]+<\/source>)*$/,
    );
    expect(parseSources(text)[0]?.id).toBe('dm-metformin-renal');
    expect(parseSources(await ask('podagra'))[0]?.id).toBe('gout');
    expect(embedded).toEqual(['metformin renal dosing eGFR 45', 'podagra']);
    expect(SEARCH_TOOL_FULL).toBe(`mcp__${name}__${SEARCH_TOOL}`);
  },
);
