import { type MessagePort, workerData } from 'node:worker_threads';
import { DuolaneError } from '../../errors.ts';
import { SqliteEngine } from './engine.ts';
import { packDone, type PackedCalls, unpackCalls } from './thread-protocol.ts';

// The calls of one message are one commit. The sender waits for the reply before the next message.
const { port, file, again } = workerData as {
  readonly port: MessagePort;
  readonly file: string;
  readonly again: boolean;
};

try {
  const engine = new SqliteEngine(file, { again });
  port.on('message', (message: PackedCalls | 'close') => {
    if (message === 'close') {
      engine.close();
      port.close();
    } else {
      const calls = unpackCalls(message);
      port.postMessage(packDone(calls, engine.run(calls)));
    }
  });
  port.postMessage('ready');
} catch (error) {
  port.postMessage({ failure: DuolaneError.from(error, 'server').toJSON() });
  port.close();
}
