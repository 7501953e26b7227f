import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { PassThrough, Writable } from 'node:stream';
import { expect, onTestFinished, test, vi } from 'vitest';
import { customProcessTransport, type SpawnedProcess } from './custom-process.ts';

const launch = { command: 'x', args: [], env: {} };

test('waiting for room leaves no listener behind', async () => {
  let take: (() => void) | undefined;
  const stdin = new Writable({
    highWaterMark: 1,
    write: (_chunk, _encoding, done) => void (take = done),
  });
  const child = Object.assign(new EventEmitter(), {
    stdin,
    stdout: new PassThrough(),
    exitCode: null,
    kill: () => true,
  });
  const transport = customProcessTransport(() => child as unknown as SpawnedProcess, launch);
  const counts = (): number[] =>
    ['drain', 'close', 'error'].map((event) => stdin.listenerCount(event));
  const before = counts();
  for (let round = 0; round < 30; round += 1) {
    expect(transport.write('x')).toBe(false);
    const drained = transport.drained();
    setImmediate(() => take?.());
    await drained;
  }
  expect(counts()).toEqual(before);
  stdin.destroy();
  await once(stdin, 'close');
  await expect(transport.drained()).rejects.toMatchObject({ code: 'closed' });
});

test('a grandchild that holds stdout does not hold up the end', async () => {
  const code = `
    const { spawn } = require('node:child_process');
    const held = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], {
      stdio: ['ignore', 'inherit', 'ignore'], detached: true,
    });
    held.unref();
    process.stdout.write(String(held.pid) + '\\n', () => process.exit(0));`;
  const start = (): SpawnedProcess =>
    spawn(process.execPath, ['-e', code], { stdio: ['pipe', 'pipe', 'ignore'] });
  const transport = customProcessTransport(start, launch);
  let text = '';
  for await (const chunk of transport.output) text += Buffer.from(chunk).toString();
  process.kill(Number(text), 'SIGKILL');
  expect(await transport.exited).toMatchObject({ code: 0 });
  await transport[Symbol.asyncDispose]();
});

/** A process on which signals have no effect, and how to end it. */
function stubborn(): { readonly kills: unknown[]; readonly child: SpawnedProcess & EventEmitter } {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const kills: unknown[] = [];
  const child = Object.assign(new EventEmitter(), {
    stdin: new PassThrough(),
    stdout: new PassThrough(),
    exitCode: null,
    kill: (signal: unknown) => kills.push(signal) > 0,
  });
  return { kills, child: child as unknown as SpawnedProcess & EventEmitter };
}

test('a process that never exits is given up after SIGKILL', async () => {
  const { kills, child } = stubborn();
  const transport = customProcessTransport(() => child, launch, { graceMs: 1, killMs: 1 });
  const disposed = transport[Symbol.asyncDispose]().then(undefined, (error: unknown) => error);
  await vi.runAllTimersAsync();
  expect(await disposed).toMatchObject({
    code: 'timeout',
    message: expect.stringContaining('5000 ms'),
  });
  expect(kills).toEqual(['SIGTERM', 'SIGKILL']);
  for await (const _ of transport.output) expect.unreachable('expected no output');
});

test('killMs does not limit how long the system takes to end a killed process', async () => {
  const { kills, child } = stubborn();
  const transport = customProcessTransport(() => child, launch, { graceMs: 1, killMs: 1 });
  const disposed = transport[Symbol.asyncDispose]();
  await vi.advanceTimersByTimeAsync(1000);
  expect(kills).toEqual(['SIGTERM', 'SIGKILL']);
  child.emit('exit', null, 'SIGKILL');
  await disposed;
  expect(await transport.exited).toMatchObject({ code: null, signal: 'SIGKILL' });
});

test('a grandchild that goes on writing to stdout does not hold up the end', async () => {
  const held = `
    process.stdout.on('error', () => process.exit());
    setInterval(() => process.stdout.write('noise\\n'), 20);`;
  const code = `
    const { spawn } = require('node:child_process');
    const held = spawn(process.execPath, ['-e', ${JSON.stringify(held)}], {
      stdio: ['ignore', 'inherit', 'ignore'], detached: true,
    });
    held.unref();
    process.stdout.write(String(held.pid) + '\\n', () => process.exit(0));`;
  const start = (): SpawnedProcess =>
    spawn(process.execPath, ['-e', code], { stdio: ['pipe', 'pipe', 'ignore'] });
  const transport = customProcessTransport(start, launch);
  let text = '';
  for await (const chunk of transport.output) text += Buffer.from(chunk).toString();
  expect(await transport.exited).toMatchObject({ code: 0 });
  expect(text).toMatch(/^\d+\n/);
  await transport[Symbol.asyncDispose]();
});

test('a process that is killed through the signal has not failed to start', async () => {
  const code = `
    process.on('SIGTERM', () => {});
    setInterval(() => {}, 1000);
    process.stdout.write('up');`;
  const transport = customProcessTransport(
    ({ signal }) =>
      spawn(process.execPath, ['-e', code], {
        stdio: ['pipe', 'pipe', 'ignore'],
        signal,
        killSignal: 'SIGKILL',
      }),
    launch,
    { graceMs: 1, killMs: 100 },
  );
  const output = transport.output[Symbol.asyncIterator]();
  await output.next();
  await transport[Symbol.asyncDispose]();
  const exit = await transport.exited;
  expect(exit).toMatchObject({ code: null, signal: 'SIGKILL' });
  expect(exit.startError).toBeUndefined();
});

test('further errors of a process are no uncaught ones', async () => {
  const child = Object.assign(new EventEmitter(), {
    stdin: new PassThrough(),
    stdout: new PassThrough(),
    exitCode: null,
    kill: () => false,
  });
  const transport = customProcessTransport(() => child as unknown as SpawnedProcess, launch);
  child.emit('error', new Error('no such program'));
  expect(() => child.emit('error', new Error('kill EPERM'))).not.toThrow();
  expect(await transport.exited).toMatchObject({ startError: { code: 'not_found' } });
  await transport[Symbol.asyncDispose]();
});
