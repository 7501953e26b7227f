import { DuolaneError } from 'duolane';
import type { SDKMessage } from 'duolane/host';
import { expect, test } from 'vitest';
import { verifies } from '../../test/verifies.ts';
import { generateBriefing, readBriefing } from './briefing.ts';
import { BriefingGenerationError } from './errors.ts';
import type { PatientBriefing } from './patient-briefing.ts';
import { openGuidelines } from './retrieval/guidelines.ts';
import { hashedEmbedder } from './retrieval/hashed.ts';
import { modelName } from './session.ts';
import { formatSources } from './sources.ts';

const source = { id: 'known', title: 'T', section: 'S', text: 'Said & done.' };
const good: PatientBriefing = {
  summary: 'A patient.',
  findings: [{ finding: 'Something.', citations: [] }],
  medicationSafety: [],
  suggestedActions: [{ action: 'Said & done.', priority: 'routine', citations: ['known'] }],
  screenings: [],
  citations: [{ id: 'known', title: 'T' }],
  disclaimer: 'Educational.',
};

const searched = {
  type: 'user',
  message: {
    role: 'user',
    content: [{ type: 'tool_result', content: [{ type: 'text', text: formatSources([source]) }] }],
  },
} as SDKMessage;
const resultOf = (output?: unknown, more: object = {}): SDKMessage =>
  ({
    type: 'result',
    subtype: 'success',
    is_error: false,
    result: '',
    structured_output: output,
    ...more,
  }) as never;

async function* run(
  messages: readonly SDKMessage[],
  failure?: unknown,
): AsyncGenerator<SDKMessage> {
  yield* messages;
  if (failure !== undefined) throw failure;
}

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

const lost = new DuolaneError('peer_exited', 'the CLI is gone');

verifies(
  ['S110', 'S113'],
  'with a result, a connection error is only a warning, alone or in an AggregateError',
  async () => {
    for (const failure of [lost, new AggregateError([new Error('else'), lost])]) {
      const warnings: string[] = [];
      const briefing = await readBriefing(run([searched, resultOf(good)], failure), {
        onWarning: (message) => warnings.push(message),
      });
      expect(briefing).toEqual(good);
      expect(warnings).toEqual([expect.stringContaining('the CLI is gone')]);
    }
  },
);

verifies(
  ['S111', 'S113', 'S221'],
  'without a result, a connection error is CLI_CONNECTION_ERROR',
  async () => {
    for (const failure of [lost, new AggregateError([lost])]) {
      const error = await failureOf(readBriefing(run([searched], failure)));
      expect(error).toBeInstanceOf(BriefingGenerationError);
      expect(error).toMatchObject({ code: 'CLI_CONNECTION_ERROR', cause: failure });
    }
    expect(await failureOf(readBriefing(run([searched])))).toMatchObject({
      code: 'CLI_CONNECTION_ERROR',
    });
  },
);

verifies(
  ['S112'],
  'every other error is rethrown unchanged, with or without a result',
  async () => {
    for (const failure of [
      new TypeError('mine'),
      new AggregateError([new Error('mine too')]),
      new DuolaneError('canceled', 'stop'),
    ])
      for (const messages of [[searched], [searched, resultOf(good)]])
        expect(await failureOf(readBriefing(run(messages, failure)))).toBe(failure);
  },
);

verifies(
  ['S218', 'S220', 'S221'],
  'an output that is missing, invalid or has an unknown citation has its code',
  async () => {
    const codeOf = async (
      output: unknown,
      before: readonly SDKMessage[] = [searched],
    ): Promise<unknown> => failureOf(readBriefing(run([...before, resultOf(output)])));
    expect(await codeOf(undefined)).toMatchObject({ code: 'NO_STRUCTURED_OUTPUT' });
    expect(await codeOf({ ...good, summary: 7 })).toMatchObject({ code: 'INVALID_OUTPUT' });
    expect(await codeOf({ ...good, extra: true })).toMatchObject({ code: 'INVALID_OUTPUT' });
    expect(await codeOf(good, [])).toMatchObject({
      code: 'UNRESOLVED_CITATION',
      message: expect.stringContaining('known'),
    });
    const invented = {
      ...good,
      screenings: [{ screening: 's', reason: 'r', citations: ['made-up'] }],
    };
    expect(await codeOf(invented)).toMatchObject({
      code: 'UNRESOLVED_CITATION',
      message: expect.stringContaining('made-up'),
    });
    const hidden = { ...good, findings: [{ finding: 'f', citations: ['other'] }] };
    expect(
      await codeOf(hidden, [
        searched,
        {
          ...searched,
          message: { role: 'user', content: formatSources([{ ...source, id: 'other' }]) },
        } as SDKMessage,
      ]),
    ).toMatchObject({
      code: 'UNRESOLVED_CITATION',
      message: expect.stringContaining('lacks other'),
    });
  },
);

test('an error result is AGENT_ERROR with its text, although the process fails after it', async () => {
  const failed = resultOf(undefined, {
    subtype: 'error_max_turns',
    is_error: true,
    errors: ['4 turns were not enough'],
  });
  const error = await failureOf(
    readBriefing(run([failed], new DuolaneError('server', 'exit code 1'))),
  );
  expect(error).toMatchObject({
    code: 'AGENT_ERROR',
    message: expect.stringContaining('4 turns were not enough'),
  });
});

test('an invalid record starts no process', async () => {
  await using guidelines = await openGuidelines({ embedder: hashedEmbedder });
  const session = {
    transport: () => {
      throw new Error('started');
    },
  };
  const error = await failureOf(generateBriefing('{"age": -1}', { guidelines, session }));
  expect(error).toMatchObject({ code: 'INVALID_RECORD' });
});

test('the model is the configured one, or the planner', () => {
  expect(modelName({})).toMatch(/^module:.*model\.[jt]s$/);
  expect(modelName({ DUOLANE_MODEL: 'script:x.json', ANTHROPIC_API_KEY: 'k' })).toBe(
    'script:x.json',
  );
  expect(modelName({ ANTHROPIC_API_KEY: 'k' })).toMatch(/^anthropic:/);
  expect(modelName({ OPENAI_BASE_URL: 'http://h/v1', OPENAI_MODEL: 'm' })).toBe(
    'openai:m@http://h/v1',
  );
  expect(modelName({ OPENAI_BASE_URL: 'http://h/v1' })).toBe('openai:default@http://h/v1');
});
