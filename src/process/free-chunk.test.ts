import { expect, test } from 'vitest';
import { freeChunk } from './free-chunk.ts';

test('a chunk that owns its memory is freed immediately', () => {
  const chunk = new Uint8Array(64 * 1024);
  const text = new Uint8Array(chunk);
  freeChunk(chunk);
  expect([chunk.length, chunk.buffer.byteLength]).toEqual([0, 0]);
  expect(text).toHaveLength(64 * 1024);
  freeChunk(chunk);
});

test('a chunk that shares its memory is kept', () => {
  const memory = new Uint8Array(10);
  for (const chunk of [Buffer.from('pooled'), memory.subarray(5), memory.subarray(0, 5)]) {
    freeChunk(chunk);
    expect(chunk.buffer.byteLength).toBeGreaterThan(0);
  }
});
