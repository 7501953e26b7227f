import { expect, test } from 'vitest';
import { toArray } from '../../../../../test/contracts/tool-source.contract.ts';
import { ResumableStream } from './resumable-stream.ts';

const progress = { jsonrpc: '2.0', method: 'notifications/progress', params: { progress: 1 } };
const result = (text: string) => ({ jsonrpc: '2.0', id: 7, result: { text } });
const LARGE = 'x'.repeat(1024 * 1024);

test('a client that lost a large response gets it again', async () => {
  const stream = new ResumableStream('s');
  await stream.push(progress);
  stream.offer(result(LARGE));
  stream.end();
  expect(await toArray(stream.read())).toHaveLength(2); // written, but lost on the way
  expect(stream.reaches(1)).toBe(true);
  const [again] = await toArray(stream.read({ after: 1 }));
  expect(again).toEqual({ id: 's_2', data: JSON.stringify(result(LARGE)) });
  expect(stream.bytes).toBeGreaterThan(LARGE.length);
});

test('only the newest of the large messages is kept', async () => {
  const stream = new ResumableStream('s');
  for (const text of ['a', 'b', 'c']) stream.offer(result(text + LARGE));
  stream.end();
  await toArray(stream.read());
  expect([0, 1, 2, 3].map((after) => stream.reaches(after))).toEqual([false, false, true, true]);
  expect(stream.bytes).toBeLessThan(2 * LARGE.length);
});

test('a stream without a name keeps nothing that was sent', async () => {
  const stream = new ResumableStream();
  stream.offer(result(LARGE));
  stream.end();
  await toArray(stream.read());
  expect(stream.bytes).toBe(0);
});
