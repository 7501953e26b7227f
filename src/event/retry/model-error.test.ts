import { expect, test } from 'vitest';
import { modelError } from './model-error.ts';

test('words about a network are no trouble of the network', () => {
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

test('what fetch and sockets say is trouble of the network, and retried', () => {
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
