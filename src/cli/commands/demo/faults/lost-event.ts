import { EventEmitter, once } from 'node:events';
import { connectA2A } from '../../../../a2a/index.ts';
import type { AgentEvent } from '../../../../event/types.ts';
import { serve } from '../../../../serve/index.ts';
import { sleep } from '../../../../stream/abort.ts';
import { memoryLog } from '../../../../task/memory/memory-log.ts';
import type { Fault, FaultReport, Side } from '../fault-types.ts';
import { events, naiveServer } from '../naive-server.ts';

const COUNT = 30;
const PACE_MS = 20;
/** After how many events the connection is cut, and for how long. */
const CUT_AFTER = 8;
const AWAY_MS = 150;

export const lostEvent: Fault = {
  title: 'The connection is cut for a moment, and the events of that time are lost',
  rule: 'A client that reconnects with Last-Event-ID gets each later event once',
  doctor: 'server-resume-gap',
  naive: 'An event emitter per task: connected clients get the event.',
  ours: 'Events are numbered in the log before they are sent; a client resumes after its last one.',
  async runNaive(report, signal) {
    const task = new EventEmitter();
    await using server = await naiveServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.flushHeaders();
      const write = (n: number): void => void response.write(`data: ${n}\n\n`);
      task.on('event', write);
      task.once('end', () => response.end());
      response.on('close', () => task.off('event', write));
      task.emit('connected');
    });
    const seen: number[] = [];
    const run = once(task, 'connected').then(async () => {
      for (let n = 0; n < COUNT; n++) {
        await sleep(PACE_MS);
        task.emit('event', n);
      }
      task.emit('end');
    });
    for await (const data of events(server.url, {}, signal)) {
      seen.push(Number(data));
      if (seen.length === CUT_AFTER) break;
    }
    report.add(`cut off after ${seen.length} events`);
    await sleep(AWAY_MS);
    for await (const data of events(server.url, {}, signal)) seen.push(Number(data));
    await run;
    return verdict(report, new Set(seen).size);
  },
  async runOurs(report, signal) {
    await using log = memoryLog();
    await using server = await serve(counting, { log, page: false });
    const client = await connectA2A(server.url, { signal });
    const first = client.stream('count');
    let pieces = 0;
    for await (const event of first) {
      if ('artifactUpdate' in event) pieces += 1;
      if (pieces === CUT_AFTER) break;
    }
    report.add(`cut off after ${pieces} pieces, at the id ${String(first.lastEventId)}`);
    await sleep(AWAY_MS);
    const { taskId = '', lastEventId = '' } = first;
    const rest = client.resume(taskId, { after: lastEventId });
    for await (const event of rest) if ('artifactUpdate' in event) pieces += 1;
    report.add(`resumed after it: ${pieces} pieces in all`);
    const task = await client.get(taskId);
    const words = (task.artifacts ?? []).flatMap(({ parts }) => parts.map(({ text = '' }) => text));
    const joined = `${first.text}${rest.text}`;
    const got = new Set(joined.split(' ').filter((word) => word !== ''));
    if (joined !== words.join('')) report.add('the two halves differ from the text of the server');
    return verdict(report, got.size);
  },
};

async function* counting(): AsyncGenerator<AgentEvent, void, undefined> {
  for (let n = 0; n < COUNT; n++) {
    await sleep(PACE_MS);
    yield { type: 'text.delta', id: 'count', delta: `${n} ` };
  }
}

function verdict(report: FaultReport, got: number): Side {
  report.add(`${got} of ${COUNT} events arrived`);
  return report.end(got === COUNT, got === COUNT ? 'no gap' : `${COUNT - got} events are lost`);
}
