import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { verifies } from '../../../test/verifies.ts';
import type { JsonObject } from '../../json.ts';
import type { ControlRequest } from '../../wire/control-peer.ts';
import { StdinGate } from './stdin-gate.ts';
import { TurnTracker } from './turn-tracker.ts';

/** A gate with the requests that hold it open, by id. */
function made() {
  const turns = new TurnTracker();
  const requests = new Map<string, ControlRequest | string>();
  const gate = new StdinGate(turns, {
    pending: () => requests.values(),
    get pendingCount() {
      return requests.size;
    },
  });
  return {
    gate,
    turns,
    requests,
    see: (message: JsonObject): void => {
      turns.observe(message);
      gate.observe(message);
    },
  };
}

const state = (name: string): JsonObject => ({
  type: 'system',
  subtype: 'session_state_changed',
  state: name,
});
const result = (...uuids: string[]): JsonObject => ({
  type: 'result',
  ...(uuids.length > 0 && { user_message_uuids: uuids }),
});
const system = (subtype: string, more: JsonObject): JsonObject => ({
  type: 'system',
  subtype,
  ...more,
});

describe('StdinGate', () => {
  test('holds for queued turns, until a result without them or an idle session', () => {
    const { gate, see } = made();
    see({ ...result(), queued_turn_count: 2 });
    expect(gate.holding).toEqual(['2 queued turns']);
    see(result());
    expect(gate.busy).toBe(false);
    see({ ...result(), queued_turn_count: 1 });
    see(state('idle'));
    expect(gate.busy).toBe(false);
    see({ type: 'user', queued_turn_count: 1 });
    expect(gate.busy).toBe(false);
  });

  test('names how many messages have no result', () => {
    const { gate, turns } = made();
    turns.send('m1');
    turns.send('m2');
    expect(gate.holding).toEqual(['2 messages without their result']);
  });

  test('a task ends with its notification, a patch that ends it, or a list without it', () => {
    const { gate, see } = made();
    const start = (): void =>
      see(system('task_started', { task_id: 'b1', task_type: 'local_agent' }));
    start();
    see(system('task_updated', { task_id: 'b1', patch: { status: 'running' } }));
    see(system('task_updated', { task_id: 'b1', patch: 'completed' }));
    see(system('other', { task_id: 'b1', patch: { status: 'completed' } }));
    expect(gate.holding).toEqual(['background task b1']);
    see(system('task_updated', { task_id: 'b1', patch: { status: 'completed' } }));
    expect(gate.busy).toBe(false);
    start();
    see(system('background_tasks_changed', { tasks: 'no list' }));
    expect(gate.busy).toBe(true);
    see(system('background_tasks_changed', { tasks: [{ task_id: 7 }, null] }));
    expect(gate.busy).toBe(false);
    start();
    see(system('task_notification', { task_id: 'b1', status: 'completed' }));
    expect(gate.busy).toBe(false);
  });

  test('holds for the turn about a task that ended while the session was idle', () => {
    const { gate, see } = made();
    const ended = (status: string): void =>
      see(system('task_notification', { task_id: 'b1', status }));
    see(state('idle'));
    ended('running');
    expect(gate.busy).toBe(false);
    for (const begins of [result(), system('init', {}), state('running')]) {
      see(state('idle'));
      ended('failed');
      expect(gate.holding).toEqual(['a turn about task b1']);
      see(begins);
      expect(gate.holding).not.toContain('a turn about task b1');
    }
  });

  test('lists what holds it', () => {
    const { gate, turns, requests, see } = made();
    requests.set('a', 'initialize');
    requests.set('b', {
      subtype: 'mcp_message',
      server_name: 'cci',
      message: { method: 'tools/call', params: { name: 'create_ticket' } },
    });
    requests.set('c', { subtype: 'can_use_tool', tool_name: 'Bash' });
    requests.set('d', { subtype: 'hook_callback', callback_id: 'hook_0' });
    requests.set('e', { subtype: 'elicitation', mcp_server_name: 'st' });
    requests.set('f', { subtype: 'odd' });
    gate.unsent = 1;
    turns.send('m1');
    see(system('task_started', { task_id: 'b1', task_type: 'local_agent', description: 'sleep' }));
    see(state('running'));
    expect(gate.holding).toEqual([
      'initialize',
      'tools/call create_ticket on cci',
      'permission for Bash',
      'hook hook_0',
      'elicitation of st',
      'odd',
      'a message that waits for initialize',
      'a message without its result',
      'background task b1 (sleep)',
      'session state running',
    ]);
    expect(gate.mayClose).toBe(false);
  });

  verifies(
    ['S100', 'S102', 'S103'],
    'stays open until the turn has its result and the session is idle',
    () => {
      const { gate, turns, see } = made();
      turns.send('m1');
      gate.endInput();
      see(state('running'));
      expect(gate.mayClose).toBe(false);
      see(result('m1'));
      expect(gate.mayClose).toBe(false);
      see(state('idle'));
      expect(gate.mayClose).toBe(true);
    },
  );

  test('closes at the result if the CLI never reports its state', () => {
    const { gate, turns, see } = made();
    turns.send('m1');
    gate.endInput();
    see(result());
    expect(gate.mayClose).toBe(true);
  });

  verifies(['S82', 'S84'], 'a hook or a permission that is pending keeps it open', () => {
    const { gate, requests } = made();
    gate.endInput();
    for (const subtype of ['hook_callback', 'can_use_tool']) {
      requests.set('x', { subtype });
      expect(gate.mayClose).toBe(false);
      requests.delete('x');
      expect(gate.mayClose).toBe(true);
    }
  });

  verifies(['S106'], 'a background task, and the turn that reports its end, keep it open', () => {
    const { gate, turns, see } = made();
    turns.send('m1');
    gate.endInput();
    see(state('running'));
    see(
      system('background_tasks_changed', { tasks: [{ task_id: 'b1', task_type: 'local_agent' }] }),
    );
    see(system('task_started', { task_id: 'b1', task_type: 'local_agent' }));
    see(result('m1'));
    see(state('idle'));
    expect(gate.holding).toEqual(['background task b1']);
    see(system('task_updated', { task_id: 'b1', patch: { status: 'completed' } }));
    see(system('task_notification', { task_id: 'b1', status: 'completed' }));
    see(system('background_tasks_changed', { tasks: [] }));
    expect(gate.holding).toEqual(['a turn about task b1']);
    see(state('running'));
    see(result());
    expect(gate.mayClose).toBe(false);
    see(state('idle'));
    expect(gate.mayClose).toBe(true);
  });

  test.each(['local_bash', 'monitor', undefined])(
    'a background task of type %s does not keep it open',
    (task_type) => {
      const { gate, turns, see } = made();
      turns.send('m1');
      gate.endInput();
      see(state('running'));
      see(system('background_tasks_changed', { tasks: [{ task_id: 'b1', task_type }] }));
      see(system('task_started', { task_id: 'b1', task_type, description: 'npm run dev' }));
      see(result('m1'));
      see(state('idle'));
      expect(gate.holding).toEqual([]);
      expect(gate.mayClose).toBe(true);
    },
  );

  test.each(['local_agent', 'local_workflow'])('a %s in the background keeps it open', (type) => {
    const { gate, see } = made();
    gate.endInput();
    see(system('background_tasks_changed', { tasks: [{ task_id: 'b1', task_type: type }] }));
    expect(gate.mayClose).toBe(false);
  });

  test('a stopped task starts no turn, and queued turns hold until the next result', () => {
    const { gate, see } = made();
    gate.endInput();
    see(state('idle'));
    see(system('task_started', { task_id: 'b1', task_type: 'local_agent' }));
    see(system('task_notification', { task_id: 'b1', status: 'stopped' }));
    expect(gate.mayClose).toBe(true);
    see({ type: 'result', queued_turn_count: 2 });
    expect(gate.holding).toEqual(['2 queued turns']);
    see({ type: 'result', queued_turn_count: 0 });
    expect(gate.mayClose).toBe(true);
  });

  type Fact =
    | { readonly kind: 'hold' | 'release' | 'send' | 'result'; readonly id: string }
    | { readonly kind: 'state'; readonly id: 'running' | 'idle' }
    | { readonly kind: 'start' | 'stop'; readonly id: string }
    | { readonly kind: 'end'; readonly id: '' };
  const id = fc.constantFrom('1', '2', '3');
  const fact: fc.Arbitrary<Fact> = fc.oneof(
    fc.record({
      kind: fc.constantFrom('hold', 'release', 'send', 'result', 'start', 'stop'),
      id,
    }) as fc.Arbitrary<Fact>,
    fc.record({ kind: fc.constant('state' as const), id: fc.constantFrom('running', 'idle') }),
    fc.record({ kind: fc.constant('end' as const), id: fc.constant('' as const) }),
  );

  verifies(
    ['S10', 'S98', 'S106'],
    'closes exactly when input has ended and nothing is open',
    () => {
      fc.assert(
        fc.property(fc.array(fact, { maxLength: 60 }), (facts) => {
          const { gate, turns, requests, see } = made();
          const open = new Set<string>(); // the model: the set of all open work
          let ended = false;
          for (const { kind, id: name } of facts) {
            switch (kind) {
              case 'hold':
                requests.set(name, name);
                open.add(`hold ${name}`);
                break;
              case 'release':
                requests.delete(name);
                open.delete(`hold ${name}`);
                break;
              case 'send':
                turns.send(name);
                open.add(`turn ${name}`);
                break;
              case 'result':
                see(result(name));
                open.delete(`turn ${name}`);
                break;
              case 'start':
                see(system('task_started', { task_id: name, task_type: 'local_agent' }));
                open.add(`task ${name}`);
                break;
              case 'stop':
                see(system('task_notification', { task_id: name, status: 'stopped' }));
                open.delete(`task ${name}`);
                break;
              case 'state':
                see(state(name));
                if (name === 'running') open.add('state');
                else open.delete('state');
                break;
              case 'end':
                gate.endInput();
                ended = true;
            }
            expect(gate.mayClose).toBe(ended && open.size === 0);
            expect(gate.holding.length > 0).toBe(open.size > 0);
          }
        }),
      );
    },
  );
});
