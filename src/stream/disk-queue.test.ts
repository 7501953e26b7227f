import { expect, test } from 'vitest';
import { DiskQueue } from './disk-queue.ts';

const options = { directory: undefined, batchBytes: 1024, diskBytes: 1024 * 1024 };

async function next(spill: DiskQueue): Promise<string> {
  for (;;) {
    const text = spill.take();
    if (text !== undefined) return text;
    await spill.load();
  }
}

test('invalid UTF-8 larger than a batch is read back like that of a short text', async () => {
  const spill = new DiskQueue(options);
  const broken = Buffer.concat([
    Buffer.from('{"a":"'),
    Buffer.alloc(3000, 0xff),
    Buffer.from('"}'),
  ]);
  spill.writeBytes(broken, 0, broken.length);
  spill.write('next');
  expect(await next(spill)).toBe(broken.toString('utf8'));
  expect(await next(spill)).toBe('next');
  await spill.close();
});

test('a queue that continues does not keep the files that it has closed', async () => {
  const spill = new DiskQueue({ ...options, diskBytes: 8 * 1024 });
  for (let round = 0; round < 200; round += 1) {
    for (let count = 0; count < 3; count += 1) spill.write('x'.repeat(1000));
    while (spill.items > 0) await next(spill);
  }
  await new Promise((resolve) => setTimeout(resolve, 0));
  for (let tries = 0; spill.closing > 0 && tries < 1000; tries += 1)
    await new Promise((resolve) => setTimeout(resolve, 1));
  expect(spill.closing).toBe(0);
  await spill.close();
});
