import { describe, expect, test } from 'vitest';
import {
  sseResponse,
  type SseItem,
  streamResponse,
  streamSource,
  watchStream,
} from './sse-response.ts';

interface Sample {
  readonly texts: AsyncIterator<string>;
  /** What the source and its listener have seen, in order. */
  readonly seen: string[];
}

function sample(items: readonly (SseItem | Error)[]): Sample {
  const seen: string[] = [];
  async function* source(): AsyncGenerator<SseItem, void, undefined> {
    try {
      for (const item of items) {
        if (item instanceof Error) throw item;
        yield item;
      }
    } finally {
      seen.push('left');
    }
  }
  const response = sseResponse(source());
  watchStream(response, { events: (count) => seen.push(`${count}`), end: () => seen.push('end') });
  const texts = streamSource(response)?.texts as AsyncIterable<string>;
  return { texts: texts[Symbol.asyncIterator](), seen };
}

const read = async (texts: AsyncIterator<string>): Promise<string> => {
  let all = '';
  for await (const text of { [Symbol.asyncIterator]: () => texts }) all += text;
  return all;
};

describe('a streamed response that is watched', () => {
  test('ends once, at its end', async () => {
    const { texts, seen } = sample([{ data: 'a' }, 'heartbeat']);
    expect(await read(texts)).toBe('data: a\n\n: \n\n');
    await texts.return?.();
    expect(seen).toEqual(['1', 'left', 'end']);
  });

  test('ends once when its source throws', async () => {
    const { texts, seen } = sample([{ data: 'a' }, new Error('broken')]);
    await expect(read(texts)).rejects.toThrow('broken');
    expect(seen).toEqual(['1', 'left', 'end']);
  });

  test('closes its source when an item cannot be encoded', async () => {
    const { texts, seen } = sample([
      { data: 'a' },
      { data: 'b', event: 'two\nlines' },
      'heartbeat',
    ]);
    await expect(read(texts)).rejects.toMatchObject({ code: 'invalid' });
    expect(seen.toSorted()).toEqual(['1', 'end', 'left']);
  });

  test('ends once when its reader breaks out, before the first item and after it', async () => {
    const before = sample([{ data: 'a' }]);
    await before.texts.return?.();
    expect(before.seen).toEqual(['end']);
    const behind = sample([{ data: 'a' }, { data: 'b' }]);
    await behind.texts.next();
    await behind.texts.return?.();
    await behind.texts.return?.();
    expect(behind.seen).toEqual(['1', 'end', 'left']);
  });

  test('counts events, not writes: a list counts its events, a heartbeat does not count', async () => {
    const counts: number[] = [];
    const source = async function* (): AsyncGenerator<readonly SseItem[], void, undefined> {
      yield [{ data: 'a' }, { data: 'b' }, 'heartbeat', { retry: 5 }];
      yield ['heartbeat'];
    };
    const response = sseResponse(source());
    watchStream(response, { events: (count) => counts.push(count), end() {} });
    await response.text();
    expect(counts).toEqual([2]);
  });

  test('of any text is watched as well', async () => {
    const seen: string[] = [];
    async function* texts(): AsyncGenerator<string, void, undefined> {
      yield 'a\n';
    }
    const response = streamResponse(texts(), { 'content-type': 'text/plain' });
    expect(
      watchStream(response, {
        events: (count) => seen.push(`${count}`),
        end: () => seen.push('end'),
      }),
    ).toBe(true);
    expect(await response.text()).toBe('a\n');
    expect(seen).toEqual(['1', 'end']);
  });
});
