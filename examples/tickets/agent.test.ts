import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Agent } from 'duolane/event';
import { query } from 'duolane/host';
import {
  dialHttp,
  dialStdio,
  type ToolContext,
  type ToolResult,
  type ToolSource,
} from 'duolane/mcp';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { all, shape, taskIdOf, textOf, wordOf, type Seen } from '../../test/a2a/support.ts';
import { openPlace, type Place, requestsIn, statusesIn, until } from '../../test/support/served.ts';
import { verifies } from '../../test/verifies.ts';
import { type Board, openBoard } from './board.ts';
import { ticketServer } from './server.ts';
import { sessionOptions } from './session.ts';
import { toolSkill } from './skill.ts';

// Served over A2A with the real agent CLI behind it, called by nothing but fetch.

let place: Place;
let board: Board;
const LOGIN = "bug: Fix login bug. Users can't log in on mobile";

beforeAll(async () => {
  place = await openPlace('tickets', async (folder) => {
    process.env['TICKETS_FILE'] = join(folder, 'tickets.sqlite');
    board = openBoard(join(folder, 'tickets.sqlite'));
    return import('./agent.ts');
  });
});
afterAll(async () => {
  await board[Symbol.asyncDispose]();
  await place[Symbol.asyncDispose]();
  delete process.env['TICKETS_FILE'];
});

const titles = (): readonly string[] => board.list().map(({ title }) => title);

/** Sends a decision as a data part, and gives what follows. */
const decide = (events: readonly Seen[], ...decisions: readonly object[]): Promise<Seen[]> => {
  const answers = requestsIn(events).map(({ id }, i) => ({ id, ...decisions[i] }));
  return all(
    place.caller().stream('SendStreamingMessage', {
      message: {
        messageId: randomUUID(),
        role: 'ROLE_USER',
        taskId: taskIdOf(events),
        parts: [{ data: { answers } }],
      },
    }),
  );
};

describe('over A2A', () => {
  verifies(
    ['S229', 'S231'],
    'a ticket waits for a person, and is created when the person approves',
    async () => {
      const asked = await all(place.caller().say(LOGIN));
      expect(shape(asked)).toEqual(['task', 'working', 'artifact', 'working', 'input-required']);
      expect(statusesIn(asked)).toContain('Calling mcp__cci__create_ticket');
      expect(requestsIn(asked)).toMatchObject([
        { message: 'Create this bug? Fix login bug', data: { title: 'Fix login bug' } },
      ]);
      expect(titles()).not.toContain('Fix login bug');

      const answered = await all(place.caller().say('approve', { taskId: taskIdOf(asked) }));
      expect(wordOf(answered.at(-1) as Seen)).toBe('completed');
      const [{ id } = { id: '' }] = board.list();
      expect(textOf([...asked, ...answered])).toContain(
        `Ticket 'Fix login bug' created successfully (ID: ${id})`,
      );
    },
  );

  test('a reviewer edits one of two tickets and rejects the other', async () => {
    const asked = await all(
      place.caller().say('Add dark mode. Many work at night\nThe export crashes on empty tables'),
    );
    expect(requestsIn(asked)).toMatchObject([{ data: { title: 'Add dark mode' } }]);
    const edit = { action: 'accept', content: { title: 'Add a dark theme' } };
    const next = await decide(asked, edit);
    expect(requestsIn(next)).toMatchObject([{ data: { kind: 'bug' } }]);
    const reject = { action: 'decline', content: { reason: 'cannot be reproduced' } };
    const done = await decide([...asked.slice(0, 1), ...next], reject);
    expect(wordOf(done.at(-1) as Seen)).toBe('completed');
    expect(textOf(done)).toContain("Ticket 'Add a dark theme' created successfully");
    expect(textOf(done)).toContain('Reason: cannot be reproduced. It was not created');
    expect(titles()).toContain('Add a dark theme');
    expect(titles()).not.toContain('The export crashes on empty tables');
  });

  test('an impossible decision is asked again; a wrong kind comes back to the user', async () => {
    const asked = await all(place.caller().say('task: Write the minutes. For Monday'));
    const again = await decide(asked, { action: 'accept', content: { kind: 'enhancement' } });
    expect(wordOf(again.at(-1) as Seen)).toBe('input-required');
    expect(requestsIn(again)[0]?.message).toContain("Invalid ticket kind 'enhancement'");
    const done = await decide([...asked.slice(0, 1), ...again], {
      action: 'accept',
      content: { kind: 'task' },
    });
    expect(wordOf(done.at(-1) as Seen)).toBe('completed');
    expect(titles()).toContain('Write the minutes');

    const refused = await all(place.caller().say('enhancement: Faster search. It takes long'));
    expect(wordOf(refused.at(-1) as Seen)).toBe('completed');
    expect(textOf(refused)).toContain('Must be one of: bug, feature, task');
  });

  test.each([
    [{ title: 'A', description: 'B', kind: 'bug', priority: 1 }, 'Unrecognized key: "priority"'],
    [{ title: 7, description: 'B', kind: 'bug' }, 'title: Invalid input: expected string'],
    [{ title: 'A', description: 'B', kind: 'epic' }, "Invalid ticket kind 'epic'"],
    [[], 'expected object'],
  ])('the data part %j is rejected with the reason', async (data, reason) => {
    const message = { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ data }] };
    const events = await all(place.caller().stream('SendStreamingMessage', { message }));
    expect(wordOf(events.at(-1) as Seen)).toBe('rejected');
    expect(JSON.stringify(events.at(-1))).toContain(JSON.stringify(reason).slice(1, -1));
  });

  test('two callers whose messages have the same id have a ticket each', async () => {
    const calls: string[] = [];
    const skill = toolSkill(ticketServer(board).instance, 'create_ticket');
    const parts = [{ data: { title: 'Twin', description: 'Of two', kind: 'task' } }];
    for (const task of ['task-a', 'task-b']) {
      const turn = { agent: 'tickets', task, context: task, messageId: '1', parts };
      const ask: ToolContext['ask'] = async ({ id }) => ({ id, action: 'accept' });
      const ctx = { signal: new AbortController().signal, task: { calls: [] }, ask };
      for await (const event of skill(turn, ctx as unknown as Parameters<Agent>[1]))
        if (event.type === 'text.delta') calls.push(event.delta);
    }
    expect(calls).toHaveLength(2);
    expect(new Set(calls).size).toBe(2);
  });

  test('a stream that was left goes on where it was left; a cancel ends the wait', async () => {
    const seen = await until(place.caller().say('bug: Clock is slow. By an hour'), (_, all) => {
      return all.length === 2;
    });
    const rest = await all(place.caller().subscribe(taskIdOf(seen), seen.at(-1)?.id));
    expect(wordOf(rest.at(-1) as Seen)).toBe('input-required');
    const canceled = await place.caller().call('CancelTask', { id: taskIdOf(seen) });
    expect(canceled).toMatchObject({ result: { status: { state: 'TASK_STATE_CANCELED' } } });
    const late = await place.caller().call('SendMessage', {
      message: {
        messageId: randomUUID(),
        role: 'ROLE_USER',
        taskId: taskIdOf(seen),
        parts: [{ text: 'approve' }],
      },
    });
    expect(JSON.stringify(late)).toContain('send without taskId to start a new task');
    expect(titles()).not.toContain('Clock is slow');

    const contextId = /"contextId":"([^"]+)"/.exec(JSON.stringify(seen))?.[1];
    const parts = [{ text: 'bug: Clock is fast. By a minute' }];
    const message = { messageId: randomUUID(), role: 'ROLE_USER', contextId, parts };
    const next = await all(place.caller().stream('SendStreamingMessage', { message }));
    expect(requestsIn(next)).toMatchObject([{ message: 'Create this bug? Clock is fast' }]);
  });
});

describe('one registry', () => {
  const ticket = { title: 'Rotate keys', description: 'Every quarter', kind: 'task' };

  async function overMcp(source: ToolSource): Promise<ToolResult> {
    for await (const event of source.callTool({ id: 'm1', name: 'create_ticket', args: ticket }))
      if (event.type === 'result') return event.result;
    throw new Error('no result');
  }

  verifies(
    'S230',
    'serves the agent CLI, an MCP client and an A2A skill, each by its own mechanism',
    async () => {
      // A2A: the card names it, and a data part calls it with no model between.
      const card: unknown = await (
        await fetch(`${place.served.url}/.well-known/agent-card.json`)
      ).json();
      expect(card).toMatchObject({ skills: [{ id: 'create_ticket' }] });
      const asked = await all(
        place.caller().stream('SendStreamingMessage', {
          message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ data: ticket }] },
        }),
      );
      expect(wordOf(asked.at(-1) as Seen)).toBe('input-required');
      const done = await decide(asked, { action: 'accept' });
      expect(textOf(done)).toMatch(/^Ticket 'Rotate keys' created successfully \(ID: TKT-\d+\)$/);

      // MCP over stdio: the client's user reviews, by elicitation.
      const questions: unknown[] = [];
      await using mcp = await dialStdio({
        command: process.execPath,
        args: [
          '--import',
          pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href,
          fileURLToPath(new URL('./mcp.ts', import.meta.url)),
        ],
        env: { PATH: process.env['PATH'] ?? '', TICKETS_FILE: join(place.folder, 'mcp.sqlite') },
        capabilities: { elicitation: {} },
        onRequest: async (method, params) => {
          questions.push(method, params['message']);
          return { action: 'accept', content: ticket };
        },
      });
      expect(await overMcp(mcp)).toEqual({
        content: [{ type: 'text', text: "Ticket 'Rotate keys' created successfully (ID: TKT-42)" }],
      });
      expect(questions).toEqual(['elicitation/create', 'Create this task? Rotate keys']);

      // MCP over HTTP: the server of the agent has it beside A2A. The CLI had it in the tests
      // above.
      await using http = await dialHttp({
        url: `${place.served.url}/mcp`,
        capabilities: { elicitation: {} },
        onRequest: async () => ({ action: 'decline', content: { reason: 'not now' } }),
      });
      expect(http.info.name).toBe('cci');
      expect(JSON.stringify(await overMcp(http))).toContain('The reviewer rejected the ticket');
    },
  );

  verifies(
    'S81',
    'the tool of the app needs no permission; without allowedTools it does',
    async () => {
      const asks = async (allowedTools: readonly string[]): Promise<readonly string[]> => {
        const asked: string[] = [];
        const run = query({
          prompt: LOGIN,
          options: {
            ...sessionOptions(ticketServer(board)),
            allowedTools,
            persistSession: false,
            canUseTool: async (name) => {
              asked.push(name);
              return { behavior: 'deny', message: 'no' };
            },
            ask: async ({ id }) => ({ id, action: 'decline' }),
          },
        });
        for await (const message of run) if ('result' in message) asked.push(message.result);
        return asked;
      };
      const [allowed] = await asks(sessionOptions(ticketServer(board)).allowedTools ?? []);
      expect(allowed).toContain("The reviewer rejected the ticket 'Fix login bug'");
      expect((await asks([]))[0]).toBe('mcp__cci__create_ticket');
    },
  );
});
