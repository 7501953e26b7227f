import { setTimeout as sleep } from 'node:timers/promises';
import { DuolaneError } from '../../src/errors.ts';
import type { Agent } from '../../src/event/types.ts';
import { agentContract } from './agent.contract.ts';

const tidy: Agent = async function* () {
  yield { type: 'run.started', model: 'm', sessionId: 's' };
  yield { type: 'text.delta', id: 'a', delta: 'hello' };
  yield { type: 'text.end', id: 'a', text: 'hello' };
  yield { type: 'run.finished', outcome: 'completed', text: 'hello' };
};

agentContract('a tidy agent', {
  normal: () => tidy,
  endless: () =>
    async function* (_turn, { signal }) {
      for (;;) {
        yield { type: 'text.delta', id: 'a', delta: 'on and on ' };
        await sleep(1, undefined, { signal });
      }
    },
  failing: () =>
    async function* () {
      yield { type: 'text.delta', id: 'a', delta: 'he' };
      throw new DuolaneError('overloaded', 'try later', { status: 529 });
    },
  tools: () =>
    async function* () {
      yield { type: 'tool.called', callId: 'c', name: 'add', args: { a: 1 } };
      yield { type: 'tool.completed', callId: 'c', name: 'add', output: 2 };
      yield { type: 'text.delta', id: 'a', delta: '2' };
    },
  asking: () =>
    async function* (turn, { ask }) {
      yield { type: 'text.delta', id: 'a', delta: 'Shall I? ' };
      const { action } = await ask({ id: `${turn.messageId}/ok`, kind: 'question' });
      yield { type: 'text.delta', id: 'a', delta: action };
    },
});

agentContract('an agent with invalid events that ignores its signal', {
  graceMs: 20,
  normal: () =>
    async function* () {
      yield { type: 'step.started', step: 1 };
      yield { type: 'text.delta', id: 'a', delta: 'hel' };
      yield { type: 'step.started', step: 2 };
      yield { type: 'text.end', id: 'a', text: 'hello' };
      yield { type: 'text.end', id: 'a', text: 'hello' };
    },
  // It never waits for anything that lets a timer through.
  endless: () =>
    async function* () {
      for (;;) yield { type: 'text.delta', id: 'a', delta: 'more ' };
    },
  failing: () => () => {
    throw new Error('before the first event');
  },
  tools: () =>
    async function* () {
      yield { type: 'tool.called', callId: 'c', name: 'add', args: {} };
      yield { type: 'tool.called', callId: 'c', name: 'add', args: {} };
    },
  asking: () =>
    async function* (turn, { ask }) {
      const same = { id: `${turn.messageId}/ok`, kind: 'question' } as const;
      const [{ action }] = await Promise.all([ask(same), ask(same)]);
      yield { type: 'status', message: action };
    },
});

agentContract('an agent that hangs', {
  graceMs: 20,
  normal: () => tidy,
  endless: () =>
    async function* () {
      yield { type: 'tool.started', callId: 'c', name: 'wait' };
      yield { type: 'text.delta', id: 'a', delta: 'wait' };
      await new Promise(() => {});
    },
});
