import { type MessagePort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { DuolaneError } from '../errors.ts';
import { type Call, SqliteEngine } from './sqlite-engine.ts';

// Calls that arrive while a commit runs wait at the port; the next commit takes them all.
const { port, file } = workerData as { readonly port: MessagePort; readonly file: string };

try {
  const engine = new SqliteEngine(file);
  port.on('message', (first: readonly Call[] | 'close') => {
    const calls: Call[] = [];
    let closing = false;
    for (let next: typeof first | undefined = first; next !== undefined; next = waiting()) {
      if (next === 'close') closing = true;
      else calls.push(...next);
    }
    if (calls.length > 0) port.postMessage(engine.run(calls));
    if (!closing) return;
    engine.close();
    port.close();
  });
  port.postMessage('ready');
} catch (error) {
  port.postMessage({ failure: DuolaneError.from(error, 'server').toJSON() });
  port.close();
}

function waiting(): readonly Call[] | 'close' | undefined {
  return receiveMessageOnPort(port)?.message as readonly Call[] | 'close' | undefined;
}
