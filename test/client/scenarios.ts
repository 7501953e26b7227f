import {
  A2AError,
  connectAgent,
  DuolaneError,
  type A2AClient,
  type A2AStreamEvent,
} from '../../src/client/index.ts';

// What the client of `duolane/client` does, in a form that every runtime can run: it uses `fetch`
// and timers only. It is bundled and run in Node, Chromium, workerd, Bun and Deno.

/** Where the servers of the scenarios are. */
export interface ScenarioServers {
  /** A server of Duolane behind a connection that can be cut, and the token it wants. */
  readonly ours: string;
  readonly token: string;
  /** The reference server of the official SDK, behind another such connection. */
  readonly reference?: string;
  /** Cuts the connections: `/cut?server=ours&after=5` cuts the next stream after so many events. */
  readonly control: string;
}

type Scenario = (servers: ScenarioServers) => Promise<void>;

const QUICK = { retryMs: 1 };
const words = (count: number): string => Array.from({ length: count }, (_, n) => `w${n} `).join('');

function equal(actual: unknown, expected: unknown, what: string): void {
  const [one, other] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (one !== other) throw new Error(`${what}: expected ${other}, got ${one}`);
}

/** The code and the A2A reason of what `work` throws. */
async function failureOf(work: () => Promise<unknown>): Promise<unknown> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof DuolaneError)) return String(error);
    return error instanceof A2AError ? [error.code, error.reason] : error.code;
  }
  return 'no error';
}

const signIn = ({ ours, token }: ScenarioServers): Promise<A2AClient> =>
  connectAgent(ours, { headers: { authorization: `Bearer ${token}` } });

async function cutNext({ control }: ScenarioServers, server: string, after: number): Promise<void> {
  await fetch(`${control}/cut?server=${server}&after=${after}`);
}

const cutsOf = async ({ control }: ScenarioServers, server: string): Promise<number> =>
  Number(await (await fetch(`${control}/cuts?server=${server}`)).text());

const isArtifact = (event: A2AStreamEvent): boolean => 'artifactUpdate' in event;

const OURS: Readonly<Record<string, Scenario>> = {
  async 'streams a run'(servers) {
    const client = await signIn(servers);
    const stream = client.stream('count 10');
    const states: string[] = [];
    for await (const event of stream)
      if ('statusUpdate' in event) states.push(event.statusUpdate.status.state);
    equal(stream.text, words(10), 'text');
    equal(states.at(-1), 'TASK_STATE_COMPLETED', 'state');
    equal(stream.problems, [], 'problems');
  },

  async 'resumes a stream that was cut, without loss or doubles'(servers) {
    const client = await signIn(servers);
    for (const binding of ['JSONRPC', 'HTTP+JSON'] as const)
      for (const after of [1, 2, 5]) {
        const headers = { authorization: `Bearer ${servers.token}` };
        const reader = await connectAgent(servers.ours, { binding, headers });
        const before = await cutsOf(servers, 'ours');
        await cutNext(servers, 'ours', after);
        let lost = 0;
        const stream = reader.stream('count 40', { ...QUICK, onDisconnect: () => lost++ });
        const seen: A2AStreamEvent[] = [];
        let text = '';
        for await (const event of stream) {
          seen.push(event);
          if ('artifactUpdate' in event)
            text += event.artifactUpdate.artifact.parts.map((part) => part.text ?? '').join('');
        }
        equal(await cutsOf(servers, 'ours'), before + 1, `cuts (${binding} ${after})`);
        equal(lost, 1, 'calls of onDisconnect');
        equal(text, words(40), 'text of the events');
        equal(stream.text, words(40), 'folded text');
        equal(seen.filter((event) => 'task' in event).length, 1, 'tasks');
        equal((await client.get(stream.taskId!)).status.state, 'TASK_STATE_COMPLETED', 'state');
      }
  },

  async 'continues a task after an event id, as another process would'(servers) {
    const stream = (await signIn(servers)).stream('count 40');
    let text = '';
    const add = (event: A2AStreamEvent): void => {
      if ('artifactUpdate' in event)
        text += event.artifactUpdate.artifact.parts.map((part) => part.text ?? '').join('');
    };
    for await (const event of stream) {
      add(event);
      if (isArtifact(event)) break;
    }
    const { taskId, lastEventId } = stream;
    const rest = (await signIn(servers)).resume(taskId!, { after: lastEventId! });
    for await (const event of rest) add(event);
    equal(text, words(40), 'text');
    const whole = (await signIn(servers)).resume(taskId!);
    await whole.result();
    equal(whole.text, words(40), 'text of a reader without an event id');
  },

  async 'cancels a task'(servers) {
    const client = await signIn(servers);
    const stream = client.stream('wait');
    let canceled: Promise<unknown> | undefined;
    for await (const event of stream) if (isArtifact(event)) canceled ??= stream.cancel();
    await canceled;
    equal(stream.status?.state, 'TASK_STATE_CANCELED', 'state');
    const done = client.stream('count 1');
    await done.result();
    const late = await failureOf(() => client.cancel(done.taskId!));
    equal(late, ['closed', 'TASK_NOT_CANCELABLE'], 'the cancel of a completed task');
    equal(await failureOf(() => client.stream('x').cancel()), 'invalid', 'cancel before a task');
  },

  async 'answers a question'(servers) {
    const client = await signIn(servers);
    const stream = client.stream('ask');
    await stream.result();
    equal(stream.status?.state, 'TASK_STATE_INPUT_REQUIRED', 'state');
    const [question] = stream.questions;
    equal(question?.message, 'Which city?', 'question');
    const { id } = question!;
    const wrong = [{ id: 'other', action: 'accept' }] as const;
    equal(
      await failureOf(async () => client.answer(stream, wrong)),
      'invalid',
      'an answer to a question that is not open',
    );
    equal(
      await failureOf(async () => client.answer(client.stream('x'), wrong)),
      'invalid',
      'an answer to a stream without a task',
    );
    const answers = [{ id, action: 'accept', content: 'Lyon' }] as const;
    const next = client.answer(stream, answers, QUICK);
    await next.result();
    equal(next.text, 'Lyon it is.', 'text after the answer');
    equal(next.status?.state, 'TASK_STATE_COMPLETED', 'state after the answer');
    equal(next.questions, [], 'questions after the answer');
    const late = client.answer(stream.task!, [{ id, action: 'decline' }], QUICK);
    equal(await failureOf(() => late.result()), ['conflict', 'ALREADY_ANSWERED'], 'second answer');
  },

  async 'reads artifacts'(servers) {
    const stream = (await signIn(servers)).stream('artifact');
    await stream.result();
    const table = stream.task?.artifacts?.find(({ name }) => name === 'table');
    equal(table?.parts, [{ data: { rows: 2 } }], 'data');
  },

  async 'throws errors with types'(servers) {
    const client = await signIn(servers);
    equal(
      await failureOf(() => client.get('no-such-task')),
      ['not_found', 'TASK_NOT_FOUND'],
      'an unknown task',
    );
    equal(
      await failureOf(() => client.resume('no-such-task', QUICK).result()),
      ['not_found', 'TASK_NOT_FOUND'],
      'a stream of an unknown task',
    );
    const failed = client.stream('fail');
    await failed.result();
    equal(failed.status?.state, 'TASK_STATE_FAILED', 'state');
    equal(await failureOf(() => connectAgent('no address')), 'invalid', 'an invalid address');
    equal(await failureOf(() => connectAgent('http://127.0.0.1:9')), 'network', 'no server');
    equal(await failureOf(() => connectAgent(servers.control)), 'not_found', 'no card');
    const card = { url: 'https://example.com', preferredTransport: 'GRPC', protocolVersion: '0.3' };
    equal(await failureOf(() => connectAgent(card)), 'unsupported', 'a card with gRPC only');
    const foreign = await failureOf(() => connectAgent(`${servers.control}/foreign`));
    equal(foreign, 'invalid', 'a card that names another origin');
    const moved = await connectAgent(`${servers.control}/moved`);
    equal(await failureOf(() => moved.get('t')), 'invalid', 'an operation that redirects');
    equal(
      await failureOf(() => moved.stream('hello', QUICK).result()),
      'invalid',
      'a stream that redirects',
    );
  },

  async 'signs in with a header'(servers) {
    const { ours } = servers;
    const stranger = await connectAgent(ours);
    equal(await failureOf(() => stranger.stream('count 1').result()), 'unauthorized', 'no token');
    const wrong = await connectAgent(ours, { headers: { authorization: 'Bearer wrong' } });
    equal(await failureOf(() => wrong.send('count 1')), 'unauthorized', 'a wrong token');
    const task = await (await signIn(servers)).send('count 1');
    equal('status' in task && task.status.state, 'TASK_STATE_COMPLETED', 'state');
  },

  async 'aborts before, during and after a stream'(servers) {
    const client = await signIn(servers);
    const gone = AbortSignal.abort(new Error('gone'));
    const { ours: url } = servers;
    equal(await failureOf(() => connectAgent(url, { signal: gone })), 'Error: gone', 'connect');
    const unsent = client.stream('count 1', { signal: gone });
    equal(await failureOf(() => unsent.result()), 'Error: gone', 'before');
    equal(unsent.taskId, undefined, 'task of a stream that never began');

    const stop = new AbortController();
    const stream = client.stream('wait', { signal: stop.signal });
    const during = await failureOf(async () => {
      for await (const event of stream) if (isArtifact(event)) stop.abort(new Error('enough'));
    });
    equal(during, 'Error: enough', 'during');
    const { status } = await client.get(stream.taskId!);
    equal(status.state, 'TASK_STATE_WORKING', 'the task continues');
    await client.cancel(stream.taskId!);

    const late = new AbortController();
    const done = client.stream('count 3', { signal: late.signal });
    await done.result();
    late.abort();
    equal(done.text, words(3), 'after');
  },

  async 'disposes twice'(servers) {
    const client = await signIn(servers);
    const stream = client.stream('wait');
    for await (const event of stream) if (isArtifact(event)) stream.disconnect();
    stream.disconnect();
    await stream[Symbol.asyncDispose]();
    await stream[Symbol.asyncDispose]();
    equal(await failureOf(() => stream.result()), 'invalid', 'a stream that is read twice');
    await client.cancel(stream.taskId!);
    await client[Symbol.asyncDispose]();
    await client[Symbol.asyncDispose]();
    const unread = client.stream('count 1');
    await unread[Symbol.asyncDispose]();
    equal(await failureOf(() => unread.result()), 'closed', 'a stream that was disposed unread');
  },
};

const REFERENCE: Readonly<Record<string, Scenario>> = {
  async 'reads the reference server'(servers) {
    const stream = (await connectAgent(servers.reference!)).stream('count 40', QUICK);
    await stream.result();
    equal(stream.text, words(40), 'text');
    equal(stream.status?.state, 'TASK_STATE_COMPLETED', 'state');
    equal(stream.task?.artifacts?.length, 1, 'artifacts');
    equal(stream.problems, [], 'problems');
  },

  async 'resumes a stream of the reference server that was cut'(servers) {
    for (const binding of ['JSONRPC', 'HTTP+JSON'] as const)
      for (const version of ['1.0', '0.3'] as const) {
        const client = await connectAgent(servers.reference!, { binding, version });
        let lost = 0;
        const stream = client.stream('wait', { ...QUICK, onDisconnect: () => lost++ });
        // This server cannot resume by event id, so it is cut when the client knows the task.
        let cut: Promise<void> | undefined;
        let canceled: Promise<unknown> | undefined;
        for await (const event of stream) {
          if (isArtifact(event)) cut ??= cutNext(servers, 'reference', 1);
          if (lost > 0 && isArtifact(event)) canceled ??= stream.cancel();
        }
        await Promise.all([cut, canceled]);
        equal(lost, 1, `calls of onDisconnect (${binding} ${version})`);
        equal(stream.status?.state, 'TASK_STATE_CANCELED', 'state');
        const count = stream.text.split(' ').length - 1;
        equal(stream.text, words(count), 'text');
        const { artifacts = [] } = await client.get(stream.taskId!);
        const stored = artifacts
          .flatMap(({ parts }) => parts.map(({ text = '' }) => text))
          .join('');
        equal(stream.text, stored, 'text, compared with that of the server');
      }
  },

  async 'cancels a task of the reference server'(servers) {
    const client = await connectAgent(servers.reference!);
    const stream = client.stream('wait', QUICK);
    let canceled: Promise<unknown> | undefined;
    for await (const event of stream) if (isArtifact(event)) canceled ??= stream.cancel();
    await canceled;
    equal(stream.status?.state, 'TASK_STATE_CANCELED', 'state');
  },

  async 'answers a question of the reference server'(servers) {
    const client = await connectAgent(servers.reference!);
    const stream = client.stream('ask', QUICK);
    await stream.result();
    const [question] = stream.questions;
    equal(question?.message, 'Which city?', 'question');
    const answer = { id: question!.id, action: 'accept', content: 'Lyon' } as const;
    const next = client.answer(stream, [answer], QUICK);
    await next.result();
    equal(next.text, 'Lyon it is.', 'text');
    equal(next.status?.state, 'TASK_STATE_COMPLETED', 'state');
  },

  async 'throws the errors of the reference server with types'(servers) {
    const client = await connectAgent(servers.reference!);
    const missing = await failureOf(() => client.get('no-such-task'));
    equal(missing, ['not_found', 'TASK_NOT_FOUND'], 'an unknown task');
  },
};

/** Runs every scenario, one after the other, and returns `ok` or the failure of each. */
export async function runScenarios(servers: ScenarioServers): Promise<Record<string, string>> {
  const results: Record<string, string> = {};
  const all = servers.reference === undefined ? OURS : { ...OURS, ...REFERENCE };
  for (const [name, run] of Object.entries(all)) {
    try {
      await run(servers);
      results[name] = 'ok';
    } catch (error) {
      results[name] = error instanceof Error ? (error.stack ?? error.message) : String(error);
    }
  }
  return results;
}
