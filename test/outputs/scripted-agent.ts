// An agent that does whatever the message says, so that a test can ask for any story.
import { once } from 'node:events';
import type { Agent, AgentEvent, Turn } from '../../src/event/types.ts';
import { type Served, serve, type ServeOptions } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';

export const textOf = (turn: Turn): string =>
  turn.parts.flatMap((part) => ('text' in part ? [part.text] : [])).join(' ');

const say = function* (words: string): Generator<AgentEvent> {
  for (const [i, word] of words.split(' ').entries())
    yield { type: 'text.delta', id: `t-${words.length}`, delta: i === 0 ? word : ` ${word}` };
};

export const kitchen: Agent = async function* (turn, ctx) {
  const order = textOf(turn);
  switch (order) {
    case 'everything':
      yield { type: 'status', message: 'Looking around' };
      yield { type: 'step.started', step: 1 };
      yield { type: 'reasoning.delta', id: 'r', delta: 'Let me ' };
      yield { type: 'reasoning.delta', id: 'r', delta: 'think.' };
      yield* say('I look it up.');
      yield { type: 'tool.started', callId: 'a', name: 'search' };
      yield { type: 'tool.args', callId: 'a', delta: '{"q":' };
      yield { type: 'tool.args', callId: 'a', delta: '"tea"}' };
      yield { type: 'tool.called', callId: 'a', name: 'search', args: { q: 'tea' } };
      yield { type: 'tool.called', callId: 'b', name: 'weigh', args: { what: 'tea' } };
      yield { type: 'tool.progress', callId: 'a', message: 'half', progress: 1, total: 2 };
      yield {
        type: 'tool.failed',
        callId: 'b',
        name: 'weigh',
        error: { code: 'tool', message: 'no scales', retryable: false },
      };
      yield { type: 'tool.completed', callId: 'a', name: 'search', output: { hits: 3 } };
      yield { type: 'step.finished', step: 1, usage: { inputTokens: 5, outputTokens: 7 } };
      yield { type: 'step.started', step: 2 };
      yield {
        type: 'artifact',
        artifactId: 'f',
        name: 'leaf',
        parts: [{ bytes: Buffer.from('PNG'), mediaType: 'image/png' }, { text: 'a leaf' }],
        last: true,
      };
      yield* say('Three kinds of tea.');
      yield { type: 'step.finished', step: 2, usage: { inputTokens: 9, outputTokens: 4 } };
      yield { type: 'run.finished', outcome: 'completed', text: '', output: { kinds: 3 } };
      return;
    case 'approve':
      yield { type: 'tool.called', callId: 'c', name: 'buy', args: { what: 'tea' } };
      yield { type: 'tool.called', callId: 'd', name: 'boil', args: {} };
      for (const { id, action } of await Promise.all(
        ['c', 'd'].map((callId) =>
          ctx.ask({ id: `${callId}/ok`, kind: 'approval', callId, message: 'May I?' }),
        ),
      )) {
        const callId = id.slice(0, 1);
        const name = callId === 'c' ? 'buy' : 'boil';
        const error = { code: 'tool', message: 'not allowed', retryable: false } as const;
        if (action === 'accept') yield { type: 'tool.completed', callId, name, output: 'done' };
        else yield { type: 'tool.failed', callId, name, error };
      }
      yield* say('That is decided.');
      return;
    case 'question': {
      const request = {
        id: `${turn.messageId}/kind`,
        kind: 'question',
        message: 'Which?',
      } as const;
      const { content } = await ctx.ask(request);
      yield* say(`You said ${String(content)}`);
      return;
    }
    case 'your tool': {
      yield { type: 'tool.called', callId: 'w', name: 'where', args: {} };
      const request = { id: 'w/result', kind: 'question', callId: 'w' } as const;
      const { content } = await ctx.ask(request);
      yield { type: 'tool.completed', callId: 'w', name: 'where', output: content };
      yield* say(`You are in ${String(content)}`);
      return;
    }
    case 'fail':
      yield* say('I try');
      yield {
        type: 'run.finished',
        outcome: 'failed',
        text: '',
        error: { code: 'overloaded', message: 'the model is busy', retryable: true },
      };
      return;
    case 'long':
      yield* say('It takes a while');
      await once(ctx.signal, 'abort');
      return;
    default: {
      const earlier: string[] = [];
      for await (const { text } of ctx.history()) earlier.push(text);
      yield* say(`${order}${earlier.length > 0 ? ` after ${earlier.join(' | ')}` : ''}`);
    }
  }
};

export const openKitchen = (options: ServeOptions = {}): Promise<Served> =>
  serve({ cook: { default: kitchen } }, { log: memoryLog(), page: false, ...options });
