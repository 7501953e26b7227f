import { expect, test } from 'vitest';
import { dialMessages } from '../../src/mcp/json-rpc/client/dial-messages.ts';
import { serveMessages } from '../../src/mcp/json-rpc/server/serve-messages.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import type { InputRequest } from '../../src/ask.ts';
import type { ToolContext, ToolSource } from '../../src/mcp/types.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';
import { messagePair } from '../support/mcp/message-pair.ts';

const CAN = { elicitation: {} };
const FORM = { type: 'object', properties: { title: { type: 'string' } } };

type Asks = (ctx: ToolContext) => Promise<unknown>;

const elicit =
  (params: Readonly<Record<string, unknown>>): Asks =>
  ({ sendRequest }) =>
    sendRequest({ method: 'elicitation/create', params });

/** What a person is asked to decide, and what they are asked to fill in. */
const CASES: readonly [string, Asks, InputRequest['kind']][] = [
  ['an approval', ({ ask }) => ask({ id: 'a', kind: 'approval', message: 'Delete?' }), 'approval'],
  [
    'an approval that can be edited',
    ({ ask }) => ask({ id: 'a', kind: 'approval', message: 'Create?', schema: FORM }),
    'approval',
  ],
  ['an elicitation without a form', elicit({ message: 'Delete?' }), 'approval'],
  [
    'an elicitation with an empty form',
    elicit({ message: 'Delete?', requestedSchema: { type: 'object', properties: {} } }),
    'approval',
  ],
  ['an elicitation with fields', elicit({ message: 'Which?', requestedSchema: FORM }), 'question'],
  ['a question', ({ ask }) => ask({ id: 'a', kind: 'question', message: 'Who?' }), 'question'],
  ['a sign-in', ({ ask }) => ask({ id: 'a', kind: 'auth', message: 'Sign in' }), 'auth'],
];

for (const hops of [0, 1, 2])
  test.each(CASES)(`%s stays what it is over ${hops} connections`, async (_, asks, kind) => {
    await using scope = new Disposer();
    let source: ToolSource = createRegistry({
      name: 'asks',
      tools: [tool('go', '', {}, async (__, ctx) => JSON.stringify(await asks(ctx)))],
    });
    for (let hop = 0; hop < hops; hop += 1) {
      const [near, far] = messagePair();
      scope.use(serveMessages(source, far));
      source = scope.use(await dialMessages(near, { capabilities: CAN }));
    }
    expect((await toArray(source.callTool(call('go')))).at(-1)).toMatchObject({
      type: 'input',
      requests: [{ kind }],
    });
  });
