import { EventEmitter } from 'node:events';
import { MessageChannel, type MessagePort, type Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { DuolaneError } from '../../errors.ts';
import { encodeEvent } from '../store/line-codec.ts';
import { threadStore } from './thread-store.ts';
import { type PackedCalls, unpackCalls } from './thread-protocol.ts';

/** A thread whose exit is reported before its last message, as on a busy event loop. */
function thread(onMessage: (message: PackedCalls | 'close', port: MessagePort) => void): {
  readonly worker: Worker;
  readonly port: MessagePort;
  readonly inside: MessagePort;
  exit(): void;
} {
  const { port1, port2 } = new MessageChannel();
  const worker = Object.assign(new EventEmitter(), { ref() {}, unref() {} });
  port2.on('message', (message: PackedCalls | 'close') => onMessage(message, port2));
  const exit = (): void => {
    port2.close();
    worker.emit('exit', 0);
  };
  return { worker: worker as unknown as Worker, port: port1, inside: port2, exit };
}

test('why a file cannot be opened is reported, also if the exit of the thread overtakes it', async () => {
  const failing = thread(() => {});
  const opening = threadStore(() => failing);
  const { code, message, retryable } = new DuolaneError('unsupported', 'a newer schema');
  failing.inside.postMessage({ failure: { code, message, retryable } });
  failing.exit();
  await expect(opening).rejects.toMatchObject({ code: 'unsupported' });
});

test('a write that the thread has done is acknowledged, also if its exit overtakes the reply', async () => {
  const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [{ text: 'Hi' }] };
  const dying = thread((message, port) => {
    if (message === 'close') return;
    for (const { id } of unpackCalls(message))
      port.postMessage([{ reply: { id, value: 'done' }, commits: [] }]);
    dying.exit();
  });
  dying.inside.postMessage('ready');
  const store = await threadStore(() => dying);
  const note = encodeEvent({ type: 'turn.submitted', turn });
  expect(await store.submit({ note, leaseMs: 1000, dedupe: true })).toBe('done');
  await store[Symbol.asyncDispose]();
});
