import { once } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { ChildPipes } from './child-pipes.ts';

const textOf = async (chunks: AsyncIterable<Uint8Array>): Promise<string> => {
  let text = '';
  for await (const chunk of chunks) text += Buffer.from(chunk).toString();
  return text;
};

test('a stdout that gives strings is read as bytes', async () => {
  const stdout = Readable.from(['a', 'ü']);
  const pipes = new ChildPipes({ stdin: new PassThrough(), stdout });
  expect(await textOf(pipes.output)).toBe('aü');
});

test('a stdout that fails ends the output', async () => {
  const failing = new PassThrough();
  const failed = new ChildPipes({ stdin: new PassThrough(), stdout: failing });
  failing.write('a');
  failing.destroy(new Error('broken'));
  await expect(textOf(failed.output)).resolves.toBeDefined();
});

test('a stdout that was closed before ends the output', async () => {
  const over = new PassThrough();
  over.destroy();
  await once(over, 'close');
  const ended = new ChildPipes({ stdin: new PassThrough(), stdout: over });
  expect(await textOf(ended.output)).toBe('');
});

test('a full queue pauses stdout until the reader has caught up', async () => {
  const stdout = new PassThrough();
  const pipes = new ChildPipes({ stdin: new PassThrough(), stdout });
  const chunk = Buffer.alloc(64 * 1024);
  for (let n = 0; n < 20; n++) stdout.write(chunk);
  expect(stdout.isPaused()).toBe(true);
  expect(pipes.output.full).toBe(true);
  stdout.end();
  expect((await textOf(pipes.output)).length).toBe(20 * chunk.length);
});

test('after discardUnread a pipe without a reader never blocks the process', async () => {
  const stdout = new PassThrough();
  const pipes = new ChildPipes({ stdin: new PassThrough(), stdout });
  pipes.discardUnread();
  const chunk = Buffer.alloc(64 * 1024);
  for (let n = 0; n < 40; n++) if (!stdout.write(chunk)) await once(stdout, 'drain');
  stdout.end();
  await once(stdout, 'end');
  expect(stdout.readableEnded).toBe(true);
});

test('a write after the end of input or the exit throws closed', async () => {
  const pipes = new ChildPipes({ stdin: new PassThrough(), stdout: new PassThrough() });
  pipes.endInput();
  expect(() => pipes.write('x')).toThrow('the input of the process has been ended');
  const exited = new ChildPipes({ stdin: new PassThrough(), stdout: new PassThrough() });
  exited.closeAfterExit();
  await expect(exited.drained()).rejects.toMatchObject({ code: 'closed' });
  exited.destroyOutput();
});
