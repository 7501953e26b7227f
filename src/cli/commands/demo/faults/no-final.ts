import type { Agent } from '../../../../event/types.ts';
import { serve } from '../../../../serve/index.ts';
import { memoryLog } from '../../../../task/memory/memory-log.ts';
import { checkStream } from '../../../../trace/index.ts';
import type { Fault, FaultReport, Side } from '../fault-types.ts';
import { events, eventLine, eventLabel, naiveServer, streamRequest } from '../naive-server.ts';

const ids = { taskId: 'task-1', contextId: 'context-1' };
const submitted = {
  kind: 'task',
  id: 'task-1',
  contextId: 'context-1',
  status: { state: 'submitted' },
};
const working = { kind: 'status-update', ...ids, status: { state: 'working' }, final: false };
const completed = { ...working, status: { state: 'completed' }, final: true };

async function agent(): Promise<string> {
  throw new Error('the database is down');
}

export const noFinal: Fault = {
  title: 'The agent throws, and the stream closes without a final event',
  rule: 'A stream never closes without a final event',
  doctor: 'stream-no-final',
  naive: 'Send events as they arrive; on an error, log it and end the response.',
  ours: 'Events are normalized before they are stored: whatever the agent throws or omits, there is one final event.',
  async runNaive(report, signal) {
    await using server = await naiveServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(eventLine(submitted));
      response.write(eventLine(working));
      agent()
        .then(() => response.write(eventLine(completed)))
        .catch((error: unknown) => report.add(`(in the log of the server: ${String(error)})`))
        .finally(() => response.end());
    });
    return await follow(report, server.url, signal);
  },
  async runOurs(report, signal) {
    await using log = memoryLog();
    const failing: Agent = async function* () {
      yield { type: 'text.delta', id: 'a', delta: await agent() };
    };
    const ignore = (): void => {};
    const error = (message: string): void => report.add(`(in the log of the server: ${message})`);
    const logger = { debug: ignore, info: ignore, warn: ignore, error };
    await using server = await serve(failing, { log, page: false, logger });
    return await follow(report, `${server.url}/a2a/agent`, signal);
  },
};

async function follow(report: FaultReport, url: string, signal: AbortSignal): Promise<Side> {
  const checker = checkStream({ requestId: 1 });
  let line = 0;
  for await (const data of events(url, streamRequest('hello'), signal)) {
    report.add(eventLabel(data));
    checker.see({ data }, ++line);
  }
  report.add('the stream has closed');
  const [missing] = checker.end();
  if (missing) report.add(`doctor: event ${missing.line} ${missing.rule}: ${missing.what}`);
  return report.end(
    !missing,
    missing
      ? 'the client cannot distinguish a failure from a broken connection'
      : 'the client knows that the run failed',
  );
}
