import type { Agent } from '../../../../event/types.ts';
import { serve } from '../../../../serve/index.ts';
import { memoryLog } from '../../../../task/memory/memory-log.ts';
import { checkStream } from '../../../../trace/index.ts';
import { type Fault, FaultReport } from '../fault-types.ts';
import { events, eventLine, eventWords, naiveServer, streamRequest } from '../naive-server.ts';

const place = { taskId: 'task-1', contextId: 'context-1' };
const submitted = {
  kind: 'task',
  id: 'task-1',
  contextId: 'context-1',
  status: { state: 'submitted' },
};
const working = { kind: 'status-update', ...place, status: { state: 'working' }, final: false };
const completed = { ...working, status: { state: 'completed' }, final: true };

async function agent(): Promise<string> {
  throw new Error('the database is away');
}

export const noFinal: Fault = {
  title: 'The agent throws, and the stream closes without a final event',
  rule: 'A stream never closes without a final event',
  doctor: 'stream-no-final',
  naive: 'Send events as they come; on an error, log it and end the response.',
  ours: 'The contract stands in front of the log: whatever the agent throws or forgets, there is one final event.',
  async runNaive(signal) {
    const story = new FaultReport();
    await using server = await naiveServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(eventLine(submitted));
      response.write(eventLine(working));
      agent()
        .then(() => response.write(eventLine(completed)))
        .catch((error: unknown) => story.tell(`(in the log of the server: ${String(error)})`))
        .finally(() => response.end());
    });
    return await follow(story, server.url, signal);
  },
  async runOurs(signal) {
    const story = new FaultReport();
    await using log = memoryLog();
    const failing: Agent = async function* () {
      yield { type: 'text.delta', id: 'a', delta: await agent() };
    };
    const ignore = (): void => {};
    const error = (message: string): void => story.tell(`(in the log of the server: ${message})`);
    const logger = { debug: ignore, info: ignore, warn: ignore, error };
    await using server = await serve(failing, { log, page: false, logger });
    return await follow(story, `${server.url}/a2a/agent`, signal);
  },
};

async function follow(
  story: FaultReport,
  url: string,
  signal: AbortSignal,
): Promise<ReturnType<FaultReport['end']>> {
  const checker = checkStream({ requestId: 1 });
  let line = 0;
  for await (const data of events(url, streamRequest('hello'), signal)) {
    story.tell(eventWords(data));
    checker.see({ data }, ++line);
  }
  story.tell('the stream has closed');
  const [missing] = checker.end();
  if (missing) story.tell(`doctor: event ${missing.line} ${missing.rule}: ${missing.what}`);
  return story.end(
    !missing,
    missing
      ? 'the client cannot tell a failure from a cut connection'
      : 'the client knows that it failed',
  );
}
