import { expect, test } from 'vitest';
import { cli } from '../../src/adapters/index.ts';
import type { Snapshot } from '../../src/event/types.ts';
import { createSdkMcpServer, tool } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { createRunner, memoryLog, type Runner, type TaskLog } from '../../src/task/index.ts';
import { memoryDatabase } from '../../src/task/memory/memory-log.ts';
import { type ModelRequest, startModelServer } from '../support/model-server.ts';
import { findRealCli, REAL_CLIS, realCli, type RealCliName } from '../support/real-cli.ts';
import { answer, SILENT, turn, until } from '../task/replica-world.ts';
import { suite } from '../verifies.ts';

// Two replicas share a task log and nothing else: each CLI has its own home, configuration folder,
// temporary folder and working directory.

const ended = ({ state }: Snapshot): boolean => state === 'completed' || state === 'failed';

const blocksOf = ({ body }: Pick<ModelRequest, 'body'>): JsonObject[] =>
  (body['messages'] as { readonly content: unknown }[]).flatMap(({ content }) =>
    Array.isArray(content) ? (content as JsonObject[]) : [{ type: 'text', text: content }],
  );

const resultsIn = (request: Pick<ModelRequest, 'body'>): JsonObject[] =>
  blocksOf(request).filter(({ type }) => type === 'tool_result');

/** The texts of the conversation, without the longer ones that the CLI adds for the model. */
const textsIn = (request: Pick<ModelRequest, 'body'>): unknown[] =>
  blocksOf(request)
    .map(({ text }) => text)
    .filter((text) => typeof text === 'string' && text.length < 40);

for (const name of Object.keys(REAL_CLIS) as RealCliName[]) {
  const { command, missing } = await findRealCli(name);

  interface Replica extends AsyncDisposable {
    readonly log: TaskLog;
    readonly runner: Runner;
  }

  const replica = (modelUrl: string, database: ReturnType<typeof memoryDatabase>): Replica => {
    const place = realCli({ command, modelUrl });
    const notes = createSdkMcpServer({
      name: 'notes',
      tools: [
        tool('approve', 'Asks', { type: 'object' }, async (_, ctx) => {
          const { action } = await ctx.ask({ id: 'review', kind: 'approval' });
          return `it was: ${action}`;
        }),
      ],
    });
    const agent = cli({
      pathToClaudeCodeExecutable: command,
      cwd: place.cwd,
      env: place.env,
      model: 'scripted',
      settingSources: [],
      allowedTools: ['mcp__notes__*'],
      mcpServers: { notes },
    });
    const log = memoryLog({ database });
    const runner = createRunner({ log, agents: { a: agent }, logger: SILENT });
    return {
      log,
      runner,
      async [Symbol.asyncDispose]() {
        await runner[Symbol.asyncDispose]();
        await log[Symbol.asyncDispose]();
        await place[Symbol.asyncDispose]();
      },
    };
  };

  suite(`sessions of ${name} on several machines`, missing, () => {
    test('a further task of the context continues on another replica', async () => {
      await using model = await startModelServer([{ text: 'first' }, { text: 'second' }]);
      const database = memoryDatabase();
      for (const [task, text] of [
        ['t1', 'one'],
        ['t2', 'two'],
      ] as const) {
        await using machine = replica(model.url, database);
        await machine.runner.submit(turn('a', task, { parts: [{ text }] }));
        expect(await until(machine.log, task, ended)).toMatchObject({ state: 'completed' });
      }
      expect(textsIn(model.calls[1]!)).toEqual(['one', 'first', 'two']);
    });

    test('a question of one replica is answered on another one, and sent to the model once', async () => {
      await using model = await startModelServer((request) =>
        resultsIn(request).length === 0
          ? { text: 'A moment. ', tools: [{ id: 'toolu_1', name: 'mcp__notes__approve' }] }
          : { text: 'All done.' },
      );
      const database = memoryDatabase();
      let asked: Snapshot;
      {
        await using first = replica(model.url, database);
        await first.runner.submit(turn('a', 't1', { parts: [{ text: 'go' }] }));
        asked = await until(first.log, 't1', ({ pending }) => pending.length === 1);
      }
      await using second = replica(model.url, database);
      await second.runner.submit(answer('a', 't1', asked.pending[0]?.id ?? ''));
      expect(await until(second.log, 't1', ended)).toMatchObject({
        state: 'completed',
        text: 'A moment. All done.',
      });
      expect(model.calls).toHaveLength(2);
      const last = model.calls[1]!;
      expect(resultsIn(last)).toHaveLength(1);
      expect(JSON.stringify(resultsIn(last))).toContain('it was: accept');
      expect(JSON.stringify(blocksOf(last))).not.toMatch(/interrupted|No response requested/);
      // The one text that this CLI adds when it continues; docs/guides/adapters.md names it.
      expect(textsIn(last)).toEqual(['go', 'A moment. ', 'Continue.']);
    });

    test('a run that stops during its first model call sends the same request again', async () => {
      let onCall = (): void => {};
      const called = new Promise<void>((resolve) => (onCall = resolve));
      await using model = await startModelServer((_, index) => {
        if (index > 0) return { text: 'All done.' };
        onCall();
        return { text: 'All done.', delayMs: 600_000 };
      });
      const database = memoryDatabase();
      {
        await using first = replica(model.url, database);
        await first.runner.submit(turn('a', 't1', { parts: [{ text: 'go' }] }));
        await called;
      }
      await using second = replica(model.url, database);
      expect(await until(second.log, 't1', ended)).toMatchObject({
        state: 'completed',
        text: 'All done.',
      });
      expect(model.calls.map(textsIn)).toEqual([['go'], ['go']]);
    });
  });
}
