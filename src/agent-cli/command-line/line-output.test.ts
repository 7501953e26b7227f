import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { LineOutput, type Sink } from './line-output.ts';

class Pipe extends EventEmitter implements Sink {
  readonly written: string[] = [];
  full = false;
  write(text: string): boolean {
    this.written.push(text);
    return !this.full;
  }
}

test('write never waits; drained() does while the pipe is full', async () => {
  const pipe = new Pipe();
  const output = new LineOutput(pipe);
  await output.drained();
  pipe.full = true;
  output.write({ a: 1 });
  let drained = false;
  const waiting = output.drained().then(() => (drained = true));
  output.write({ b: 2 });
  await Promise.resolve();
  expect([drained, pipe.written]).toEqual([false, ['{"a":1}\n', '{"b":2}\n']]);
  pipe.emit('drain');
  await waiting;
  expect(pipe.listenerCount('drain')).toBe(0);
});

test('a closed pipe aborts `gone`, ends the wait and drops later writes', async () => {
  const pipe = new Pipe();
  const output = new LineOutput(pipe);
  pipe.full = true;
  output.write({ a: 1 });
  const waiting = output.drained();
  pipe.emit('error', new Error('EPIPE'));
  await waiting;
  expect(output.gone.aborted).toBe(true);
  output.write({ b: 2 });
  expect(pipe.written).toEqual(['{"a":1}\n']);
  await output.drained();
});

test('a terminal gets no control characters of the model; a file gets the text as it is', () => {
  const text = 'a\u001b]52;c;ZXZpbA==\u0007\u202eb\n';
  const terminal = Object.assign(new Pipe(), { isTTY: true });
  new LineOutput(terminal).text(text);
  expect(terminal.written).toEqual(['a\ufffd]52;c;ZXZpbA==\ufffd\ufffdb\n']);
  const file = new Pipe();
  new LineOutput(file).text(text);
  expect(file.written).toEqual([text]);
});
