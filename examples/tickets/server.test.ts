import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { offerMessages, type ToolCall, type ToolEvent } from 'duolane/mcp';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { verifies } from '../../test/verifies.ts';
import { type Board, openBoard } from './board.ts';
import { readLines } from './model.ts';
import { decisionIn } from './review.ts';
import { ticketServer } from './server.ts';

let folder: string;
let board: Board;
let cci: ReturnType<typeof ticketServer>;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tickets-'));
  board = openBoard(join(folder, 'new', 'tickets.sqlite'));
  cci = ticketServer(board);
});
afterEach(async () => {
  await board[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

const draft = {
  title: 'Fix login bug',
  description: "Users can't log in on mobile",
  kind: 'bug',
};

async function last(call: Partial<ToolCall> = {}): Promise<ToolEvent> {
  let event: ToolEvent | undefined;
  const full = { id: 'toolu_1', name: 'create_ticket', args: draft, ...call };
  for await (event of cci.instance.callTool(full));
  return event as ToolEvent;
}

async function textAfter(...answers: NonNullable<ToolCall['answers']>): Promise<string> {
  const event = await last({ answers });
  if (event.type !== 'result') throw new Error(`it asks: ${JSON.stringify(event)}`);
  expect(event.result.isError).toBeUndefined();
  return event.result.content.map((block) => block['text']).join('\n');
}

verifies(
  ['S227', 'S63'],
  'create_ticket requires a title, a description and one of three kinds',
  () => {
    expect(cci.instance.get('create_ticket')).toMatchObject({
      name: 'create_ticket',
      description: 'Create a ticket on the project board',
      inputSchema: {
        type: 'object',
        properties: {
          title: { type: 'string', description: 'Ticket title' },
          description: { type: 'string', description: 'Ticket description' },
          kind: { type: 'string', enum: ['bug', 'feature', 'task'] },
        },
        required: ['title', 'description', 'kind'],
      },
    });
  },
);

verifies('S62', 'an unknown kind is rejected with the list of kinds', async () => {
  await using end = offerMessages(cci.instance);
  const args = { ...draft, kind: 'enhancement' };
  const answer = await end.receive({
    jsonrpc: '2.0',
    id: 2,
    method: 'tools/call',
    params: { name: 'create_ticket', arguments: args },
  });
  expect(answer).toEqual({
    jsonrpc: '2.0',
    id: 2,
    result: {
      content: [
        {
          type: 'text',
          text: "Error: Invalid ticket kind 'enhancement'. Must be one of: bug, feature, task",
        },
      ],
      isError: true,
    },
  });
  expect(board.list()).toEqual([]);
});

describe('a ticket is staged', () => {
  const answer = { id: 'toolu_1/review', action: 'accept' } as const;

  verifies('S228', 'approved, it is created and the result reports it', async () => {
    expect(await last()).toMatchObject({
      type: 'input',
      requests: [{ id: 'toolu_1/review', kind: 'approval', callId: 'toolu_1', data: draft }],
    });
    expect(board.list()).toEqual([]);
    expect(await textAfter(answer)).toBe(
      "Ticket 'Fix login bug' created successfully (ID: TKT-42)",
    );
    expect(board.list()).toEqual([{ id: 'TKT-42', ...draft }]);
  });

  test('edited, the values of the reviewer are used', async () => {
    const content = { title: 'Fix login on mobile', kind: 'task' };
    expect(await textAfter({ ...answer, content })).toContain("Ticket 'Fix login on mobile'");
    expect(board.list()).toMatchObject([{ ...content, description: draft.description }]);
  });

  test('edited to an invalid ticket, the reviewer is asked again, and nothing is lost', async () => {
    const wrong = { ...answer, content: { kind: 'enhancement' } };
    const again = await last({ answers: [wrong] });
    expect(again).toMatchObject({
      type: 'input',
      requests: [{ id: 'toolu_1/review-2', data: draft }],
    });
    expect(JSON.stringify(again)).toContain("Invalid ticket kind 'enhancement'");
    const right = { id: 'toolu_1/review-2', action: 'accept' } as const;
    expect(await textAfter(wrong, right)).toContain('(ID: TKT-42)');
  });

  test('edited in an unknown field, the reviewer is asked again', async () => {
    const again = await last({ answers: [{ ...answer, content: { titel: 'Fix it' } }] });
    expect(again).toMatchObject({ type: 'input', requests: [{ id: 'toolu_1/review-2' }] });
    expect(JSON.stringify(again)).toContain('An edit may have title, description and kind');
    expect(board.list()).toEqual([]);
  });

  test.each([
    ['decline', { reason: 'a duplicate of TKT-7' }, 'rejected', 'Reason: a duplicate of TKT-7.'],
    ['decline', 'not now', 'rejected', 'Reason: not now.'],
    ['decline', undefined, 'rejected', 'It was not created'],
    ['cancel', undefined, 'without a decision', 'It was not created'],
  ] as const)('%s with %j reports the decision to the model', async (action, content, ...words) => {
    const text = await textAfter({ ...answer, action, content });
    for (const word of words) expect(text).toContain(word);
    expect(board.list()).toEqual([]);
  });

  test('a repeated call creates no second ticket', async () => {
    const first = await textAfter(answer);
    expect(await textAfter(answer)).toBe(first);
    expect(board.list()).toHaveLength(1);
  });

  test('equal call ids in two conversations create two tickets', async () => {
    await textAfter(answer);
    const other = { ...draft, title: 'Another bug' };
    expect(await last({ args: other, answers: [answer] })).toMatchObject({
      type: 'result',
      result: { content: [{ text: "Ticket 'Another bug' created successfully (ID: TKT-43)" }] },
    });
  });
});

test.each([
  [{ title: '  ' }, 'A ticket needs a title'],
  [{ title: 'x'.repeat(201) }, 'at most 200 characters'],
  [{ description: 'x'.repeat(20_001) }, 'at most 20000 characters'],
])('%j is refused without a review', async (change, reason) => {
  const event = await last({ args: { ...draft, ...change } });
  expect(JSON.stringify(event)).toContain(reason);
  expect(event).toMatchObject({ type: 'result', result: { isError: true } });
});

test('an unknown field is refused by name, and not dropped', async () => {
  const event = await last({ args: { ...draft, priority: 'high' } });
  expect(event).toMatchObject({ type: 'result', result: { isError: true } });
  expect(JSON.stringify(event)).toContain('Unrecognized key: \\"priority\\"');
});

test.each([
  ['', undefined],
  ['absolutely not', undefined],
  ['stop', undefined],
  ['A', 'approve'],
  ['yes', 'approve'],
  ['e', 'edit'],
  [' Reject ', 'reject'],
  ['no', 'reject'],
  ['quit', undefined],
  ['not sure', undefined],
])('at the terminal %j means %s', (said, decision) => {
  expect(decisionIn(said)).toBe(decision);
});

test('two boards on one file number their tickets without a conflict, and keep keys apart', async () => {
  const ticket = { ...draft, kind: 'bug' } as const;
  await using other = openBoard(join(folder, 'new', 'tickets.sqlite'));
  expect([board.create('a', ticket).id, other.create('b', ticket).id]).toEqual([
    'TKT-42',
    'TKT-43',
  ]);
  expect(other.create('a', ticket).id).toBe('TKT-42');
  expect(() => other.create('a', { ...ticket, title: 'Another' })).toThrow(
    'this call has already created TKT-42',
  );
});

test('the offline model reads a ticket from each line', () => {
  const text =
    "bug: Fix login bug. Users can't log in on mobile\n- Add dark mode\n\nok\nWrite the minutes.";
  expect(readLines(text)).toEqual([
    draft,
    { title: 'Add dark mode', description: 'Add dark mode', kind: 'feature' },
    { title: 'Write the minutes', description: 'Write the minutes.', kind: 'task' },
  ]);
});
