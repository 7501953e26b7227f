import { expect, test } from 'vitest';
import { unauthorized } from '../../errors.ts';
import { fromRpcError } from '../../wire/json-rpc-errors.ts';
import { agentError } from './agent-error.ts';

const login = (): ReturnType<typeof unauthorized> => unauthorized('log in');

test.each([
  [
    { code: 429, message: 'slow down' },
    { code: 'rate_limited', status: 429, retryable: true },
  ],
  [
    { code: -32603, message: 'Internal error', data: { details: 'broken' } },
    {
      code: 'server',
      retryable: false,
      message: expect.stringContaining('error: broken') as string,
    },
  ],
  [
    { code: -32603, message: 'Internal error', data: { message: 'fetch failed' } },
    { code: 'network', retryable: true },
  ],
  [
    { code: -32603, message: 'Internal error', data: { status: 529 } },
    { code: 'overloaded', status: 529, retryable: true },
  ],
  [
    { code: -32603, message: 'x', data: { duolane: { code: 'max_steps', retryable: false } } },
    { code: 'max_steps', retryable: false },
  ],
  [
    { code: -32602, message: 'no such session' },
    { code: 'invalid', retryable: false },
  ],
  [
    { code: -32000, message: 'Authentication required' },
    { code: 'unauthorized', message: 'log in' },
  ],
])('the error %j of an agent', (sent, expected) => {
  expect(agentError(fromRpcError(sent), 'session/prompt', login)).toMatchObject(expected);
});

test('an error that the agent did not send stays as it is', () => {
  const error = new Error('mine');
  expect(agentError(error, 'session/prompt', login)).toBe(error);
});
