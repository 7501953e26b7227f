import type { Agent } from 'duolane/event';

/** Buys the requested item if a person approves. */
const shopping: Agent = async function* (turn, ctx) {
  const [part] = turn.parts;
  const what = part && 'text' in part ? part.text : 'nothing';
  yield { type: 'text.delta', id: 'plan', delta: `I would like to buy ${what}. ` };
  const callId = `buy-${turn.messageId}`;
  yield { type: 'tool.called', callId, name: 'buy', args: { what } };
  const { action } = await ctx.ask({ id: `${callId}/ok`, kind: 'approval', callId });
  if (action !== 'accept') {
    const error = { code: 'tool', message: 'not allowed', retryable: false } as const;
    yield { type: 'tool.failed', callId, name: 'buy', error };
    yield { type: 'text.delta', id: 'end', delta: 'Then not.' };
    return;
  }
  yield { type: 'tool.completed', callId, name: 'buy', output: { bought: what } };
  yield { type: 'text.delta', id: 'end', delta: `There is your ${what}.` };
};

/** After a crash it starts over, and the person is not asked again: the log has the answer. */
export const shopper: Agent = Object.assign(shopping, { resumable: true });
