import { type MessagePort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { DuolaneError } from '../errors.ts';
import { SqliteEngine } from './sqlite-engine.ts';
import {
  type Answered,
  type Call,
  packDone,
  type PackedCalls,
  unpackCalls,
} from './sqlite-wire.ts';

// Calls that arrive while a commit runs wait at the port; the next commit takes them all.
const { port, file, again } = workerData as {
  readonly port: MessagePort;
  readonly file: string;
  readonly again: boolean;
};

try {
  const engine = new SqliteEngine(file, { again });
  port.on('message', (first: PackedCalls | 'close') => {
    const calls: Call[] = [];
    let messages = 0;
    let closing = false;
    for (let next: typeof first | undefined = first; next !== undefined; next = waiting()) {
      if (next === 'close') closing = true;
      else {
        messages++;
        calls.push(...unpackCalls(next));
      }
    }
    if (calls.length > 0) {
      const answered: Answered = { messages, done: packDone(calls, engine.run(calls)) };
      port.postMessage(answered);
    }
    if (!closing) return;
    engine.close();
    port.close();
  });
  port.postMessage('ready');
} catch (error) {
  port.postMessage({ failure: DuolaneError.from(error, 'server').toJSON() });
  port.close();
}

function waiting(): PackedCalls | 'close' | undefined {
  return receiveMessageOnPort(port)?.message as PackedCalls | 'close' | undefined;
}
