import { expect, test } from 'vitest';
import { buildEnv } from './env.ts';

const base = {
  PATH: '/bin',
  HOME: '/home/x',
  NODE_OPTIONS: '--inspect',
  LC_ALL: 'C',
  GONE: undefined,
};

test('without a list, everything but NODE_OPTIONS is passed on, and `set` takes precedence', () => {
  expect(buildEnv({ base, set: { HOME: '/tmp', KEY: '1' } })).toEqual({
    PATH: '/bin',
    HOME: '/tmp',
    LC_ALL: 'C',
    KEY: '1',
  });
});

test('with a list, only its names and those of `set` are passed on', () => {
  const set = { NODE_OPTIONS: '--max-old-space-size=64' };
  expect(buildEnv({ base, allow: ['PATH', 'LC_*'], set })).toEqual({
    PATH: '/bin',
    LC_ALL: 'C',
    NODE_OPTIONS: '--max-old-space-size=64',
  });
  expect(buildEnv({ base, allow: [] })).toEqual({});
});

test('undefined in `set` removes a name', () => {
  expect(buildEnv({ base, set: { HOME: undefined, LC_ALL: undefined } })).toEqual({ PATH: '/bin' });
});
