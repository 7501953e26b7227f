import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Served } from '../../src/serve/index.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';
import { openKitchen } from './scripted-agent.ts';
import { eventually } from '../support/busy.ts';

interface AgUiMessage {
  readonly id: string;
  readonly role: string;
  readonly content?: string;
  readonly toolCallId?: string;
  readonly toolCalls?: readonly { readonly function: { name: string; arguments: string } }[];
}

interface HttpAgent {
  readonly messages: readonly AgUiMessage[];
  readonly pendingInterrupts: readonly { readonly id: string; readonly toolCallId?: string }[];
  addMessage(message: AgUiMessage): void;
  runAgent(parameters?: object, subscriber?: object): Promise<{ result: unknown }>;
  abortRun(): void;
}

const frontEnds = await peer('front-ends');
let served: Served;
beforeAll(async () => {
  served = await openKitchen();
});
afterAll(() => served[Symbol.asyncDispose]());

suite('front-ends', frontEnds.reason, () => {
  describe.each(['@ag-ui/client', 'ag-ui-client-0'])('HttpAgent of %s', (name) => {
    let messages = 0;
    const open = async (threadId?: string): Promise<HttpAgent> => {
      const client = (await frontEnds.import(name)) as unknown as {
        HttpAgent: new (options: object) => HttpAgent;
      };
      return new client.HttpAgent({
        url: `${served.url}/ag-ui/cook`,
        ...(threadId !== undefined && { threadId }),
      });
    };
    const ask = (agent: HttpAgent, content: string): void =>
      agent.addMessage({ id: `${name}-${++messages}`, role: 'user', content });
    const answer = ({ messages: all }: HttpAgent): string | undefined => all.at(-1)?.content;

    test('gets reasoning, text, calls with their arguments, results and the end', async () => {
      const agent = await open();
      ask(agent, 'everything');
      const custom: unknown[] = [];
      let usage: unknown;
      const { result } = await agent.runAgent(
        {},
        {
          onCustomEvent: ({ event }: { event: { name: string } }) => void custom.push(event.name),
          onRunFinishedEvent: ({ event }: { event: { usage: unknown } }) =>
            void (usage = event.usage),
        },
      );
      expect(result).toEqual({ kinds: 3 });
      expect(usage).toEqual([{ inputTokens: 14, outputTokens: 11 }]);
      const calls = agent.messages.flatMap(({ toolCalls = [] }) => toolCalls);
      expect(calls.map((call) => [call.function.name, call.function.arguments])).toEqual([
        ['search', '{"q":"tea"}'],
        ['weigh', '{"what":"tea"}'],
      ]);
      const tools = agent.messages.filter(({ role }) => role === 'tool');
      expect(tools.map(({ toolCallId, content }) => [toolCallId, content])).toEqual([
        ['a', '{"hits":3}'],
        ['b', 'no scales'],
      ]);
      expect(agent.messages.find(({ role }) => role === 'reasoning')?.content).toBe(
        'Let me think.',
      );
      expect(answer(agent)).toBe('Three kinds of tea.');
      expect(custom).toEqual(['status', 'tool.progress', 'artifact']);
    });

    test('the agent gets the earlier messages of a thread', async () => {
      const agent = await open();
      ask(agent, 'one');
      await agent.runAgent();
      ask(agent, 'two');
      await agent.runAgent();
      expect(answer(agent)).toBe('two after one');
    });

    test('approvals are interrupts, and `resume` answers them', async () => {
      const agent = await open();
      ask(agent, 'approve');
      await agent.runAgent();
      expect(agent.pendingInterrupts.map(({ id, toolCallId }) => [id, toolCallId])).toEqual([
        ['c/ok', 'c'],
        ['d/ok', 'd'],
      ]);
      await agent.runAgent({
        resume: [
          { interruptId: 'c/ok', status: 'resolved', payload: { approved: true } },
          { interruptId: 'd/ok', status: 'resolved', payload: { approved: false } },
        ],
      });
      expect(agent.messages.filter(({ role }) => role === 'tool').map((m) => m.content)).toEqual([
        'done',
        'not allowed',
      ]);
      expect(answer(agent)).toBe('That is decided.');
      expect(agent.pendingInterrupts).toEqual([]);
    });

    test('a tool message is the result that the agent waits for', async () => {
      const agent = await open();
      ask(agent, 'your tool');
      await agent.runAgent().catch(() => {});
      agent.addMessage({ id: `${name}-w`, role: 'tool', toolCallId: 'w', content: 'Bern' });
      await agent.runAgent({
        resume: [{ interruptId: 'w/result', status: 'resolved', payload: 'Bern' }],
      });
      expect(answer(agent)).toBe('You are in Bern');
    });

    test('a failure is an error of the run, with its text', async () => {
      const agent = await open();
      ask(agent, 'fail');
      const errors: string[] = [];
      await agent
        .runAgent(
          {},
          {
            onRunErrorEvent: ({ event }: { event: { message: string; code: string } }) =>
              void errors.push(event.code, event.message),
          },
        )
        .catch(() => {});
      expect(errors).toEqual(['overloaded', 'the model is busy']);
    });

    test('a disconnect does not cancel; stop does, and the stream reports it', async () => {
      const thread = `thread of ${name}`;
      const agent = await open(thread);
      ask(agent, 'long');
      const running = agent.runAgent().catch(() => {});
      await eventually(() => expect(answer(agent)).toBe('It takes a while'));
      agent.abortRun();
      await running;
      const base = `${served.url}/ag-ui/cook/${encodeURIComponent(thread)}`;
      const replay = await fetch(`${base}/stream`);
      expect(replay.status).toBe(200);
      expect(await (await fetch(`${base}/stop`, { method: 'POST' })).json()).toHaveProperty('task');
      const said = await replay.text();
      expect(said).toMatch(/"delta":"[^"]*while"/);
      expect(said).toContain('"type":"RUN_FINISHED"');
    });
  });
});
