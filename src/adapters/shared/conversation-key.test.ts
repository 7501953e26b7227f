import fc from 'fast-check';
import { expect, test } from 'vitest';
import { turnOf } from '../../../test/support/arbitraries.ts';
import { callerKey, conversationKey } from './conversation-key.ts';

const name = fc.constantFrom(undefined, 'a', '["a",null]', '[null,"a"]', '["a","a"]');
const caller = fc.record({ owner: name, tenant: name });
const place = fc.record({ caller, context: fc.constantFrom('a', '["a","a"]', '[null,"a"]') });
const given = ({ owner, tenant }: { owner: string | undefined; tenant: string | undefined }) => ({
  ...(owner !== undefined && { owner }),
  ...(tenant !== undefined && { tenant }),
});

test('each owner, tenant and context has its own conversation key', () => {
  fc.assert(
    fc.property(place, place, (one, other) => {
      const key = ({ caller: by, context }: typeof one): string =>
        conversationKey({ ...turnOf('hi'), context, ...given(by) });
      const same = JSON.stringify(one) === JSON.stringify(other);
      expect(key(one) === key(other)).toBe(same);
    }),
  );
});

test('without owner and tenant the key is the context, and the caller key is undefined', () => {
  expect(conversationKey({ ...turnOf('hi'), context: 'c' })).toBe('c');
  expect(callerKey({})).toBeUndefined();
});
