import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { offerGrpc } from '../../src/mcp/grpc/index.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import type { ToolSource } from '../../src/mcp/types.ts';
import { suite } from '../verifies.ts';
import { expectNoStack, missingPty, Place } from './support.ts';

let place: Place;
beforeAll(async () => {
  place = await Place.open();
});
afterAll(async () => {
  await place[Symbol.asyncDispose]();
});

async function* each<T>(...items: readonly T[]): AsyncGenerator<T, void, undefined> {
  yield* items;
}

const ITEMS = <T>(...items: readonly T[]) =>
  Object.assign(each(...items), { checkpoint: undefined });

/** A server with everything that the command shows; control characters are its own. */
const source: ToolSource = {
  info: { name: 'library', version: '1' },
  listTools: () => ITEMS({ name: 'count', inputSchema: { type: 'object' } }),
  async *callTool() {
    yield { type: 'result', result: { content: [{ type: 'text', text: '2' }] } };
  },
  listResources: () => ITEMS({ uri: 'file:///a.txt', name: 'a\u001b[31m', mimeType: 'text/plain' }),
  listResourceTemplates: () => ITEMS({ uriTemplate: 'file:///{name}', name: 'any' }),
  async *readResource(uri) {
    yield { uri, text: 'hello' };
    yield { uri, mimeType: 'image/png', blob: 'AAEC' };
  },
  listPrompts: () =>
    ITEMS({
      name: 'review',
      description: 'Reviews',
      arguments: [{ name: 'file', required: true }],
    }),
  getPrompt: async (name, args) => ({
    messages: [
      { role: 'user', content: { type: 'text', text: `${name} ${String(args['file'])}` } },
    ],
  }),
};

/** A request of a server for a model's message. */
const sampling = {
  id: 'summary',
  kind: 'question',
  data: {
    method: 'sampling/createMessage',
    params: {
      messages: [{ role: 'user', content: { type: 'text', text: 'Summarize this' } }],
      maxTokens: 9,
    },
  },
} as const;
const sampler = (): ToolSource =>
  createRegistry({
    name: 'sampler',
    tools: [
      tool('sum', '', {}, async (_args, { ask }) => JSON.stringify((await ask(sampling)).content)),
    ],
  });

describe('duolane tools', () => {
  test.each([
    ['HTTP', () => offerHttp(source)],
    ['gRPC', () => offerGrpc(source)],
  ])('shows resources and prompts of a server over %s', async (_, offer) => {
    await using offered = await offer();
    const run = async (...args: readonly string[]): Promise<string> => {
      const { code, stdout, stderr } = await place.run(['tools', offered.url, ...args]);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return stdout;
    };
    expect(await run('--resources')).toBe(
      'file:///a.txt  a\ufffd[31m  text/plain\nfile:///{name}  any\n',
    );
    expect(await run('--read', 'file:///a.txt')).toBe(
      'hello\nimage/png, 3 bytes; --json prints them as base64\n',
    );
    expect(JSON.parse((await run('--read=x:y', '--json')).split('\n')[1]!)).toEqual({
      uri: 'x:y',
      mimeType: 'image/png',
      blob: 'AAEC',
    });
    expect(await run('--prompts')).toBe('review  Reviews\n    { file }\n');
    expect(await run('--prompt', 'review', '{"file":"a.ts"}')).toBe('user\nreview a.ts\n');
  });

  test('can be asked: a question is declined without a terminal', async () => {
    const ask = tool('ask', '', {}, async (_args, { ask: person, clientCapabilities }) => {
      const { action } = await person({ id: 'pin', kind: 'question', message: 'PIN?' });
      return `${action} ${JSON.stringify(clientCapabilities?.['elicitation'])}`;
    });
    await using offered = await offerHttp(createRegistry({ name: 'bank', tools: [ask] }));
    for (const protocol of ['session', 'stateless']) {
      const asked = await place.run(['tools', offered.url, 'ask', `--protocol=${protocol}`]);
      expect(asked).toMatchObject({ code: 0, stdout: 'decline {"form":{}}\n' });
      expect(asked.stderr).toContain('PIN? (no terminal: declined)');
    }
  });

  test.each([
    ['two actions', ['--prompts', '--resources'], /--resources and --prompts exclude each other/],
    ['a tool with an action', ['count', '--read=x:y'], /unexpected argument "count" with --read/],
    ['a time that is not one', ['--timeout=soon'], /invalid --timeout "soon"/],
    ['an unknown protocol', ['--protocol=old'], /invalid --protocol "old"/],
  ])('%s is refused in plain text', async (_, args, words) => {
    const ended = await place.run(['tools', 'http://127.0.0.1:1/mcp', ...args]);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toMatch(words);
    expectNoStack(ended);
  });
});

suite('a pseudo terminal', missingPty, () => {
  test.each(['session', 'stateless'])(
    "the user writes a model's message that the server requests (%s)",
    async (protocol) => {
      await using offered = await offerHttp(sampler());
      const args = ['tools', offered.url, 'sum', `--protocol=${protocol}`];
      const running = place.start(args, { pty: true });
      await running.says(/Summarize this[^]*Write it, or leave it empty to decline > /);
      running.type('it is short\r');
      expect((await running.end()).code).toBe(0);
      await running.says(
        /\{"role":"assistant","content":\{"type":"text","text":"it is short"\},"model":"user"\}/,
      );
    },
  );

  test("an empty line declines a model's message", async () => {
    await using offered = await offerHttp(sampler());
    const running = place.start(['tools', offered.url, 'sum'], { pty: true });
    await running.says(/leave it empty to decline > /);
    running.type('\r');
    expect((await running.end()).code).toBeGreaterThan(0);
    await running.says(/cannot complete sampling\/createMessage: the request was declined/);
  });
});
