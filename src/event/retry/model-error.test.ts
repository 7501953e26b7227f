import { expect, test } from 'vitest';
import { modelError } from './model-error.ts';

test('a message about networks is not a network error', () => {
  for (const message of [
    'social network policy denied',
    'the contract was terminated',
    'a power socket is needed',
    'premature optimisation is refused',
  ])
    expect(modelError(new Error(message)), message).toMatchObject({
      code: 'server',
      retryable: false,
    });
});

test('messages of fetch and sockets are network errors, and retried', () => {
  for (const message of [
    'terminated',
    'fetch failed',
    'socket hang up',
    'Premature close',
    'network error',
    'Connection error.',
    'other side closed',
  ])
    expect(modelError(new TypeError(message)), message).toMatchObject({
      code: 'network',
      retryable: true,
    });
});
