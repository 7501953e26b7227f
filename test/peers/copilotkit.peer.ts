import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { listen } from '../../src/http/index.ts';
import type { Served } from '../../src/serve/index.ts';
import { openKitchen } from '../outputs/scripted-agent.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';
import { eventually } from '../support/busy.ts';

// CopilotKit: the core under its components, its runtime, and behind that a served agent over
// AG-UI.

Object.assign(process.env, { COPILOTKIT_TELEMETRY_DISABLED: 'true', DO_NOT_TRACK: '1' });
const kit = await peer('copilotkit');

interface Message {
  readonly id: string;
  readonly role: string;
  readonly content?: string;
  readonly toolCallId?: string;
  readonly toolCalls?: readonly { readonly function: { name: string; arguments: string } }[];
}
interface Agent {
  readonly messages: readonly Message[];
  readonly pendingInterrupts: readonly { readonly id: string }[];
  addMessage(message: Message): void;
  runAgent(parameters: object): Promise<unknown>;
}
interface Core {
  getAgent(id: string): Agent | undefined;
  runAgent(run: { readonly agent: Agent }): Promise<{ readonly result?: unknown }>;
  subscribe(subscriber: object): void;
}
interface Runtime {
  readonly CopilotRuntime: new (options: object) => unknown;
  readonly InMemoryAgentRunner: new () => unknown;
  readonly createCopilotRuntimeHandler: (
    options: object,
  ) => (request: Request) => Promise<Response>;
}

let served: Served;
let runtime: Awaited<ReturnType<typeof listen>>;
const asked = new Set<string>();

async function openRuntime(): Promise<typeof runtime> {
  const lib = (await kit.import('@copilotkit/runtime/v2')) as unknown as Runtime;
  const { HttpAgent } = (await kit.import('@ag-ui/client')) as unknown as {
    HttpAgent: new (options: object) => unknown;
  };
  const cook = new HttpAgent({ url: `${served.url}/ag-ui/cook` });
  const runner = new lib.InMemoryAgentRunner();
  const copilot = new lib.CopilotRuntime({ agents: { cook }, runner });
  return listen(lib.createCopilotRuntimeHandler({ runtime: copilot, basePath: '/copilot' }));
}

/** A new page with the agent that it found. */
async function openPage(): Promise<{ core: Core; agent: Agent; errors: string[] }> {
  const { CopilotKitCore } = (await kit.import('@copilotkit/core')) as unknown as {
    CopilotKitCore: new (options: object) => Core;
  };
  const core = new CopilotKitCore({ runtimeUrl: `${runtime.url}/copilot` });
  const errors: string[] = [];
  core.subscribe({ onError: ({ error }: { error: Error }) => void errors.push(error.message) });
  const agent = await eventually(() => {
    const found = core.getAgent('cook');
    if (!found) throw new Error('not yet');
    return found;
  });
  return { core, agent, errors };
}

let messages = 0;
const ask = (agent: Agent, content: string): void =>
  agent.addMessage({ id: `copilot-${++messages}`, role: 'user', content });
const last = (agent: Agent): string | undefined => agent.messages.at(-1)?.content;

suite('copilotkit', kit.reason, () => {
  beforeAll(async () => {
    served = await openKitchen();
    runtime = await openRuntime();
    // It connects only if a global `window` exists.
    vi.stubGlobal('window', Object.assign(new EventTarget(), { location: new URL(runtime.url) }));
    const { fetch } = globalThis;
    vi.stubGlobal('fetch', (...call: Parameters<typeof fetch>) => {
      const [input] = call;
      asked.add(new URL(input instanceof Request ? input.url : String(input)).hostname);
      return fetch(...call);
    });
  });
  afterAll(async () => {
    vi.unstubAllGlobals();
    await runtime?.[Symbol.asyncDispose]();
    await served?.[Symbol.asyncDispose]();
  });

  test('shows reasoning, text, calls and results, and the output', async () => {
    const { core, agent, errors } = await openPage();
    ask(agent, 'everything');
    expect(await core.runAgent({ agent })).toMatchObject({ result: { kinds: 3 } });
    const calls = agent.messages.flatMap(({ toolCalls = [] }) => toolCalls);
    expect(calls.map((call) => [call.function.name, call.function.arguments])).toEqual([
      ['search', '{"q":"tea"}'],
      ['weigh', '{"what":"tea"}'],
    ]);
    const said = (role: string): readonly (string | undefined)[] =>
      agent.messages.filter((each) => each.role === role).map(({ content }) => content);
    expect(said('reasoning')).toEqual(['Let me think.']);
    expect(new Set(said('tool'))).toEqual(new Set(['no scales', '{"hits":3}']));
    expect(last(agent)).toBe('Three kinds of tea.');
    expect(errors).toEqual([]);
  });

  test('a second message continues the thread', async () => {
    const { core, agent } = await openPage();
    ask(agent, 'one');
    await core.runAgent({ agent });
    ask(agent, 'two');
    await core.runAgent({ agent });
    expect(last(agent)).toBe('two after one');
  });

  test('approvals are its interrupts, and the answers reach the agent', async () => {
    const { core, agent } = await openPage();
    ask(agent, 'approve');
    await core.runAgent({ agent });
    expect(agent.pendingInterrupts.map(({ id }) => id)).toEqual(['c/ok', 'd/ok']);
    await agent.runAgent({
      resume: [
        { interruptId: 'c/ok', status: 'resolved', payload: { approved: true } },
        { interruptId: 'd/ok', status: 'resolved', payload: { approved: false } },
      ],
    });
    expect(last(agent)).toBe('That is decided.');
    expect(agent.pendingInterrupts).toEqual([]);
  });

  test('a failure is an error on the page, with the message of the agent', async () => {
    const { core, agent, errors } = await openPage();
    ask(agent, 'fail');
    await core.runAgent({ agent }).catch(() => {});
    await eventually(() => expect(errors.join()).toContain('the model is busy'));
  });

  test('no request left this machine', () => {
    expect([...asked]).toEqual(['127.0.0.1']);
  });
});
