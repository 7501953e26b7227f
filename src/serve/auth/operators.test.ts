import { describe, expect, test } from 'vitest';
import { memoryLog } from '../../task/memory/memory-log.ts';
import type { Auth } from './guard.ts';
import { createGuard } from './guard.ts';
import { serve } from '../serve.ts';

const agent = async function* () {};
const PATHS = ['/metrics', '/api/replicas'];

async function statuses(
  auth: Auth | undefined,
  operators: readonly string[] | undefined,
  headers: Record<string, string>,
): Promise<readonly number[]> {
  await using served = await serve(agent, {
    log: memoryLog(),
    page: false,
    ...(auth && { auth }),
    ...(operators && { operators }),
  });
  return await Promise.all(
    PATHS.map(async (path) => (await fetch(`${served.url}${path}`, { headers })).status),
  );
}
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

describe('only operators read metrics and replicas', () => {
  const two = { bearer: { ada: 'alpha', bob: 'beta' } };
  const verify = async ({ headers }: Request): Promise<string | undefined> =>
    headers.get('x-user') ?? undefined;

  test.each([
    ['no auth: everybody on this machine', undefined, undefined, {}, 200],
    ['one secret: its holder', { bearer: 'alpha' }, undefined, bearer('alpha'), 200],
    ['one named secret: its holder', { bearer: { ada: 'alpha' } }, undefined, bearer('alpha'), 200],
    ['no secret shown', { bearer: 'alpha' }, undefined, {}, 401],
    ['several owners, none named: no one', two, undefined, bearer('alpha'), 403],
    ['several owners: the one that is named', two, ['ada'], bearer('alpha'), 200],
    ['several owners: not the other', two, ['ada'], bearer('beta'), 403],
    ['owners that are not known beforehand: no one', { verify }, undefined, { 'x-user': 'a' }, 403],
    ['owners that are not known beforehand: named', { verify }, ['a'], { 'x-user': 'a' }, 200],
    ['an empty list: no one', { bearer: 'alpha' }, [], bearer('alpha'), 403],
  ] as const)('%s', async (_, auth, operators, headers, status) => {
    expect(await statuses(auth, operators, headers)).toEqual([status, status]);
  });

  test.each([
    [{ bearer: { ada: 'alpha' } }, ['bob'], 'unknown operator "bob"; available: ada'],
    [undefined, ['ada'], 'option "operators" needs "auth"'],
  ])('%j with the operators %j is refused', async (auth, operators, message) => {
    await expect(statuses(auth, operators, {})).rejects.toThrow(message);
  });
});

describe('the name of an owner', () => {
  test.each(['a\nb', 'a\u0000', '\u007f', 'x'.repeat(513), ''])(
    'has no control characters and a limit: %j is refused',
    async (name) => {
      expect(() => createGuard('127.0.0.1', { bearer: { [name]: 'alpha' } })).toThrow(
        'invalid owner',
      );
      const guard = createGuard('127.0.0.1', { verify: async () => name });
      await expect(guard(new Request('http://127.0.0.1/'))).rejects.toThrow('invalid owner');
    },
  );
});
