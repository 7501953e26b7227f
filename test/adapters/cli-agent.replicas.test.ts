import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { cli, type CliOptions } from '../../src/adapters/cli-agent.ts';
import type { Agent, AgentContext, Snapshot, Turn } from '../../src/event/types.ts';
import { createSdkMcpServer, tool } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { createRunner, memoryLog, type Runner, type TaskLog } from '../../src/task/index.ts';
import { memoryDatabase } from '../../src/task/memory/memory-log.ts';
import { answer, SILENT, turn, until } from '../task/replica-world.ts';

// Two replicas share a task log and nothing else: each has its own home, configuration folder and
// working directory. The CLI is ours, as built into dist.

/** Calls a tool if it is asked to, else repeats the prompt; notes every request. */
const MODEL = `
  import { appendFileSync } from 'node:fs';
  export default async function* model({ messages }) {
    appendFileSync(process.env.NOTES, JSON.stringify(messages) + '\\n');
    const { content } = messages.at(-1);
    const last = Array.isArray(content) ? content.at(-1) : { type: 'text', text: content };
    if (last.type === 'tool_result') return yield 'The tool has answered.';
    const [, name, argument] = /^(Bash|Read) (.*)$/s.exec(last.text) ?? [];
    if (name) {
      yield { type: 'tool_use', id: 'toolu_' + messages.length, name };
      const input = name === 'Bash' ? { command: argument } : { file_path: argument };
      return yield { type: 'tool_input', json: JSON.stringify(input) };
    }
    if (!last.text.startsWith('approve')) return yield 'You said: ' + last.text;
    yield 'One moment. ';
    yield { type: 'tool_use', id: 'toolu_' + messages.length, name: 'mcp__notes__approve' };
    yield { type: 'tool_input', json: '{}' };
  }
`;

type Messages = readonly { readonly role: string; readonly content: unknown }[];

interface Place {
  readonly home: string;
  readonly requests: () => readonly Messages[];
}

function place(): Place {
  const home = mkdtempSync(join(tmpdir(), 'duolane-replicas-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true, maxRetries: 3 }));
  writeFileSync(join(home, 'model.mjs'), MODEL);
  const notes = join(home, 'notes.jsonl');
  const requests = (): readonly Messages[] =>
    existsSync(notes)
      ? readFileSync(notes, 'utf8')
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as Messages)
      : [];
  return { home, requests };
}

interface ReplicaPlace {
  readonly log: TaskLog;
  readonly runner: Runner;
  readonly folder: string;
}

const notes = createSdkMcpServer({
  name: 'notes',
  tools: [
    tool('approve', 'Asks', { type: 'object' }, async (_, ctx) => {
      const { action } = await ctx.ask({ id: 'review', kind: 'approval' });
      return `it was: ${action}`;
    }),
  ],
});

interface ReplicaOptions extends CliOptions {
  readonly wrap?: (agent: Agent) => Agent;
}

/** As an earlier version ran it: nothing of the session is in the log. */
const withoutStorage = (agent: Agent): Agent =>
  Object.assign((turn: Turn, { storage: _storage, ...ctx }: AgentContext) => agent(turn, ctx), {
    continues: true,
  });

/** A replica with a disk of its own. */
function replica(
  { home }: Place,
  name: string,
  database: ReturnType<typeof memoryDatabase>,
  { wrap = (agent) => agent, ...options }: ReplicaOptions = {},
): ReplicaPlace & AsyncDisposable {
  const folder = join(home, name);
  for (const each of ['home', 'config', 'work', 'tmp'])
    mkdirSync(join(folder, each), { recursive: true });
  const agent = cli({
    cwd: join(folder, 'work'),
    env: {
      HOME: join(folder, 'home'),
      CLAUDE_CONFIG_DIR: join(folder, 'config'),
      TMPDIR: join(folder, 'tmp'),
      NOTES: join(home, 'notes.jsonl'),
    },
    inheritEnv: ['PATH'],
    model: `module:${join(home, 'model.mjs')}`,
    allowedTools: ['mcp__notes__*'],
    mcpServers: { notes },
    ...options,
  });
  const log = memoryLog({ database });
  const runner = createRunner({ log, agents: { a: wrap(agent) }, name, logger: SILENT });
  return {
    log,
    runner,
    folder,
    async [Symbol.asyncDispose]() {
      await runner[Symbol.asyncDispose]();
      await log[Symbol.asyncDispose]();
    },
  };
}

const ended = ({ state }: Snapshot): boolean => state === 'completed' || state === 'failed';

const texts = (messages: Messages | undefined): string[] =>
  (messages ?? []).flatMap(({ content }) =>
    typeof content === 'string'
      ? [content]
      : (content as readonly { readonly type: string; readonly text?: string }[]).map(
          ({ type, text }) => text ?? type,
        ),
  );

test('a further task of the context continues on another replica', async () => {
  const at = place();
  const database = memoryDatabase();
  {
    await using first = replica(at, 'first', database);
    await first.runner.submit(turn('a', 't1', { parts: [{ text: 'one' }] }));
    expect((await until(first.log, 't1', ended)).state).toBe('completed');
  }
  rmSync(join(at.home, 'first'), { recursive: true });
  {
    await using second = replica(at, 'second', database);
    await second.runner.submit(turn('a', 't2', { parts: [{ text: 'two' }] }));
    expect(await until(second.log, 't2', ended)).toMatchObject({ state: 'completed' });
  }
  rmSync(join(at.home, 'second'), { recursive: true });
  await using third = replica(at, 'third', database);
  await third.runner.submit(turn('a', 't3', { parts: [{ text: 'three' }] }));
  expect(await until(third.log, 't3', ended)).toMatchObject({ state: 'completed' });
  expect(texts(at.requests().at(-1))).toEqual([
    'one',
    'You said: one',
    'two',
    'You said: two',
    'three',
  ]);
});

test('a question of one replica is answered on another one, and sent to the model once', async () => {
  const at = place();
  const database = memoryDatabase();
  let asked: Snapshot;
  {
    await using first = replica(at, 'first', database);
    await first.runner.submit(turn('a', 't1', { parts: [{ text: 'approve it' }] }));
    asked = await until(first.log, 't1', ({ pending }) => pending.length === 1);
  }
  rmSync(join(at.home, 'first'), { recursive: true });
  await using second = replica(at, 'second', database);
  await second.runner.submit(answer('a', 't1', asked.pending[0]?.id ?? ''));
  expect(await until(second.log, 't1', ended)).toMatchObject({
    state: 'completed',
    text: 'One moment. The tool has answered.',
  });
  const unbroken = place();
  await using whole = replica(unbroken, 'whole', memoryDatabase());
  await whole.runner.submit(turn('a', 't1', { parts: [{ text: 'approve it' }] }));
  const open = await until(whole.log, 't1', ({ pending }) => pending.length === 1);
  await whole.runner.submit(answer('a', 't1', open.pending[0]?.id ?? ''));
  await until(whole.log, 't1', ended);
  expect(at.requests()).toEqual(unbroken.requests());
});

test('a session that only a disk has is continued there, and then on any replica', async () => {
  const at = place();
  const database = memoryDatabase();
  {
    await using disk = replica(at, 'disk', database, { wrap: withoutStorage });
    await disk.runner.submit(turn('a', 't1', { parts: [{ text: 'one' }] }));
    expect(await until(disk.log, 't1', ended)).toMatchObject({ state: 'completed' });
  }
  {
    await using same = replica(at, 'disk', database);
    await same.runner.submit(turn('a', 't2', { parts: [{ text: 'two' }] }));
    expect(await until(same.log, 't2', ended)).toMatchObject({ state: 'completed' });
  }
  await using other = replica(at, 'other', database);
  await other.runner.submit(turn('a', 't3', { parts: [{ text: 'three' }] }));
  expect(await until(other.log, 't3', ended)).toMatchObject({ state: 'completed' });
  expect(texts(at.requests().at(-1))).toHaveLength(5);
});

test('the transcript is stored before a tool is called, and before the run ends', async () => {
  const at = place();
  const order: string[] = [];
  const seen = createSdkMcpServer({
    name: 'notes',
    tools: [
      tool('approve', 'Notes', { type: 'object' }, async () => {
        order.push('tool called');
        return 'done';
      }),
    ],
  });
  const slow = (agent: Agent): Agent =>
    Object.assign(
      async function* (asked: Turn, ctx: AgentContext) {
        const { storage } = ctx;
        if (!storage) throw new Error('the runner has no storage');
        const set: typeof storage.set = async (values) => {
          await new Promise((resolve) => setTimeout(resolve, 50));
          await storage.set(values);
          for (const [key, value] of Object.entries(values))
            if (key.includes('/result/')) order.push(value ? 'result stored' : 'result removed');
            else if (value !== undefined)
              order.push(`${String((value as { type?: string }).type)} stored`);
        };
        const list: typeof storage.list = (...args) => storage.list(...args);
        for await (const event of agent(asked, { ...ctx, storage: { set, list } })) {
          if (event.type === 'run.finished' || event.type === 'tool.called') order.push(event.type);
          yield event;
        }
      },
      { continues: true },
    );
  await using only = replica(at, 'only', memoryDatabase(), {
    wrap: slow,
    mcpServers: { notes: seen },
  });
  await only.runner.submit(turn('a', 't1', { parts: [{ text: 'approve it' }] }));
  expect(await until(only.log, 't1', ended)).toMatchObject({ state: 'completed' });
  expect(order.filter((what) => what !== 'tool.called')).toEqual([
    'user stored',
    'assistant stored',
    'assistant stored',
    'tool called',
    'result stored',
    'user stored',
    'result removed',
    'assistant stored',
    'run.finished',
  ]);
});

test('a run whose transcript cannot be stored fails, and calls no tool', async () => {
  const at = place();
  let called = 0;
  const counted = createSdkMcpServer({
    name: 'notes',
    tools: [tool('approve', 'Counts', { type: 'object' }, async () => String(++called))],
  });
  const failing = (agent: Agent): Agent =>
    Object.assign(
      (asked: Turn, ctx: AgentContext) => {
        const set = async (values: object): Promise<void> => {
          if (JSON.stringify(values).includes('tool_use')) throw new Error('the disk is full');
        };
        const list = async function* (): AsyncGenerator<never> {};
        return agent(asked, { ...ctx, storage: { set, list } });
      },
      { continues: true },
    );
  await using only = replica(at, 'only', memoryDatabase(), {
    wrap: failing,
    mcpServers: { notes: counted },
    logger: SILENT,
  });
  await only.runner.submit(turn('a', 't1', { parts: [{ text: 'approve it' }] }));
  expect(await until(only.log, 't1', ended)).toMatchObject({ state: 'failed' });
  expect(called).toBe(0);
});

const resultsIn = (messages: Messages | undefined): JsonObject[] =>
  (messages ?? [])
    .flatMap(({ content }) => (Array.isArray(content) ? (content as JsonObject[]) : []))
    .filter(({ type }) => type === 'tool_result');

test('a command that a person permits on another replica is run there, once', async () => {
  const at = place();
  const command = `echo ran >> ${join(at.home, 'effects')} && echo done`;
  const ask = { parts: [{ text: `Bash ${command}` }] };
  const database = memoryDatabase();
  const tools = { tools: ['Bash'] };
  let asked: Snapshot;
  {
    await using first = replica(at, 'first', database, tools);
    await first.runner.submit(turn('a', 't1', ask));
    asked = await until(first.log, 't1', ({ pending }) => pending.length === 1);
  }
  rmSync(join(at.home, 'first'), { recursive: true });
  await using second = replica(at, 'second', database, tools);
  await second.runner.submit(answer('a', 't1', asked.pending[0]?.id ?? ''));
  expect(await until(second.log, 't1', ended)).toMatchObject({ state: 'completed' });
  expect(readFileSync(join(at.home, 'effects'), 'utf8')).toBe('ran\n');
  expect(at.requests()).toHaveLength(2);
  expect(resultsIn(at.requests().at(-1))).toEqual([
    { type: 'tool_result', tool_use_id: 'toolu_1', content: 'done' },
  ]);
});

test('a command that was running at a stop is not run again; the model gets an error result', async () => {
  const at = place();
  const effects = join(at.home, 'effects');
  const bash = { tools: ['Bash'], allowedTools: ['Bash'] };
  const database = memoryDatabase();
  {
    await using first = replica(at, 'first', database, bash);
    const command = `echo ran >> ${effects}; sleep 60`;
    await first.runner.submit(turn('a', 't1', { parts: [{ text: `Bash ${command}` }] }));
    // No event reports the effect of a command that is still running.
    while (!existsSync(effects)) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await using second = replica(at, 'second', database, bash);
  expect(await until(second.log, 't1', ended)).toMatchObject({ state: 'completed' });
  expect(readFileSync(effects, 'utf8')).toBe('ran\n');
  expect(at.requests()).toHaveLength(2);
  const [result, ...more] = resultsIn(at.requests().at(-1));
  expect(more).toEqual([]);
  expect(result).toMatchObject({ tool_use_id: 'toolu_1', is_error: true });
  expect(JSON.stringify(result)).toContain('It may have had effects');
});

test('a command that was permitted and was running at a stop is not run again', async () => {
  const at = place();
  const effects = join(at.home, 'effects');
  const bash = { tools: ['Bash'] };
  const database = memoryDatabase();
  {
    await using first = replica(at, 'first', database, bash);
    const command = `echo ran >> ${effects}; sleep 60`;
    await first.runner.submit(turn('a', 't1', { parts: [{ text: `Bash ${command}` }] }));
    const { pending } = await until(first.log, 't1', (task) => task.pending.length === 1);
    await first.runner.submit(answer('a', 't1', pending[0]?.id ?? ''));
    while (!existsSync(effects)) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await using second = replica(at, 'second', database, bash);
  const again = new Promise<string>((resolve) => {
    const timer = setInterval(() => {
      if (readFileSync(effects, 'utf8') === 'ran\n') return;
      clearInterval(timer);
      resolve('ran again');
    });
    onTestFinished(() => clearInterval(timer));
  });
  const end = until(second.log, 't1', ended);
  expect(await Promise.race([end, again])).toMatchObject({ state: 'completed' });
  expect(readFileSync(effects, 'utf8')).toBe('ran\n');
  const [result] = resultsIn(at.requests().at(-1));
  expect(JSON.stringify(result)).toContain('It may have had effects');
});

test('a run that is stopped while its tool works goes on elsewhere with the same request', async () => {
  const at = place();
  const database = memoryDatabase();
  let calls = 0;
  const working = (isLast: boolean, onCall = (): void => {}): ReplicaOptions => ({
    mcpServers: {
      notes: createSdkMcpServer({
        name: 'notes',
        tools: [
          tool('approve', 'Works', { type: 'object' }, async (_, { signal }) => {
            calls++;
            onCall();
            if (!isLast) await new Promise((resolve) => signal.addEventListener('abort', resolve));
            return isLast ? 'worked' : 'stopped';
          }),
        ],
      }),
    },
  });
  {
    let onCall = (): void => {};
    const called = new Promise<void>((resolve) => (onCall = resolve));
    await using first = replica(at, 'first', database, working(false, onCall));
    await first.runner.submit(turn('a', 't1', { parts: [{ text: 'approve it' }] }));
    await called;
  }
  await using second = replica(at, 'second', database, working(true));
  expect(await until(second.log, 't1', ended)).toMatchObject({
    state: 'completed',
    text: 'One moment. The tool has answered.',
  });
  expect(calls).toBe(2);
  expect(resultsIn(at.requests().at(-1))).toEqual([
    { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: 'worked' }] },
  ]);
  expect(JSON.stringify(at.requests().at(-1))).not.toContain('interrupt');
});
