import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import type { A2AStreamEvent } from '../../src/a2a/protocol/model.ts';
import { SseDecoder } from '../../src/wire/sse.ts';

const STREAMS = 1000;
const CHUNKS = 20;
const CHARS = 8192;
const SERVER = fileURLToPath(new URL('../fixtures/small-heap-server.mjs', import.meta.url));

interface Streamed {
  readonly task: string;
  readonly text: string;
  readonly state: string;
  readonly reason: string;
}

const send = (url: string, agent: Agent, messageId: string): Promise<Streamed> => {
  const message = { messageId, role: 'ROLE_USER', parts: [{ text: 'go' }] };
  return follow(url, agent, 'SendStreamingMessage', { message });
};

/** All events from the first on, as a client gets them that lost its connection early. */
const replay = (url: string, agent: Agent, task: string): Promise<Streamed> =>
  follow(url, agent, 'SubscribeToTask', { id: task }, { 'last-event-id': '0' });

async function follow(
  url: string,
  agent: Agent,
  method: string,
  params: object,
  more: Readonly<Record<string, string>> = {},
): Promise<Streamed> {
  const headers = { 'content-type': 'application/json', 'a2a-version': '1.0', ...more };
  const sent = request(url, { agent, method: 'POST', headers });
  sent.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const decoder = new SseDecoder();
  let [task, text, state, reason] = ['', '', '', ''];
  for await (const bytes of response as AsyncIterable<Buffer>)
    for (const event of decoder.decode(bytes)) {
      if (!('data' in event)) continue;
      const { result } = JSON.parse(event.data) as { readonly result: A2AStreamEvent };
      if ('task' in result) task = result.task.id;
      if ('statusUpdate' in result) {
        ({ state } = result.statusUpdate.status);
        reason = JSON.stringify(result.statusUpdate.status.message?.parts ?? []);
      }
      if (!('artifactUpdate' in result)) continue;
      for (const part of result.artifactUpdate.artifact.parts)
        text += 'text' in part ? part.text : '';
    }
  return { task, text, state, reason };
}

const said = (task: string, chunks = CHUNKS): string =>
  Array.from({ length: chunks }, (_, index) => `[${task}:${index}]`.padEnd(CHARS, 'x')).join('');

interface SmallServer {
  readonly url: string;
  readonly agent: Agent;
  readonly lives: () => boolean;
}

/**
 * A server with a heap of 64 MB whose agent says so many chunks. It is gone at the end of the test.
 */
async function smallServer(chunks: number): Promise<SmallServer> {
  const folder = mkdtempSync(join(tmpdir(), 'duolane-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const options = {
    file: join(folder, 'tasks.sqlite'),
    chunks,
    chars: CHARS,
    everyMs: 1,
    maxRuns: STREAMS,
  };
  const child = fork(SERVER, [JSON.stringify(options)], {
    execArgv: ['--max-old-space-size=64'],
  });
  const exited = once(child, 'exit');
  const agent = new Agent({ maxSockets: STREAMS });
  onTestFinished(async () => {
    agent.destroy();
    if (child.connected) child.disconnect();
    await exited;
  });
  const [{ url }] = (await once(child, 'message')) as [{ readonly url: string }];
  return { url, agent, lives: () => (child.exitCode ?? child.signalCode) === null };
}

test('1,000 streams of 160 KB live in a heap of 64 MB: each ends, and none is cut short', async () => {
  const { url, agent, lives } = await smallServer(CHUNKS);

  let completed = 0;
  await Promise.all(
    Array.from({ length: STREAMS }, async (_, index) => {
      const { task, text, state, reason } = await send(url, agent, `m${index}`);
      if (state === 'TASK_STATE_COMPLETED') {
        completed++;
        expect(text === said(task)).toBe(true);
      } else {
        expect(state).toBe('TASK_STATE_FAILED');
        expect(reason).toContain('exceed maxTotalChars');
        // What was stored before it failed was sent.
        expect(said(task).startsWith(text)).toBe(true);
      }
    }),
  );
  expect(completed).toBeGreaterThan(STREAMS / 2);
  expect(lives()).toBe(true);
}, 600_000);

test('1,000 clients that replay 200 KB together fit into a heap of 64 MB, and each gets all of it', async () => {
  const chunks = 25;
  const { url, agent, lives } = await smallServer(chunks);
  const { task, state } = await send(url, agent, 'm');
  expect(state).toBe('TASK_STATE_COMPLETED');
  const whole = said(task, chunks);
  await Promise.all(
    Array.from({ length: STREAMS }, async () => {
      const again = await replay(url, agent, task);
      expect(again.state).toBe('TASK_STATE_COMPLETED');
      expect(again.text === whole).toBe(true);
    }),
  );
  expect(lives()).toBe(true);
}, 600_000);
