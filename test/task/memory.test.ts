import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import type { StreamEvent } from '../../src/a2a/protocol/model.ts';
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

async function follow(url: string, agent: Agent, messageId: string): Promise<Streamed> {
  const headers = { 'content-type': 'application/json', 'a2a-version': '1.0' };
  const sent = request(url, { agent, method: 'POST', headers });
  const message = { messageId, role: 'ROLE_USER', parts: [{ text: 'go' }] };
  const method = 'SendStreamingMessage';
  sent.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { message } }));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const decoder = new SseDecoder();
  let [task, text, state, reason] = ['', '', '', ''];
  for await (const bytes of response as AsyncIterable<Buffer>)
    for (const event of decoder.decode(bytes)) {
      if (!('data' in event)) continue;
      const { result } = JSON.parse(event.data) as { readonly result: StreamEvent };
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

const said = (task: string): string =>
  Array.from({ length: CHUNKS }, (_, index) => `[${task}:${index}]`.padEnd(CHARS, 'x')).join('');

test('1,000 streams of 160 KB live in a heap of 64 MB: each ends, and none is cut short', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'duolane-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const options = {
    file: join(folder, 'tasks.sqlite'),
    chunks: CHUNKS,
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

  let completed = 0;
  await Promise.all(
    Array.from({ length: STREAMS }, async (_, index) => {
      const { task, text, state, reason } = await follow(url, agent, `m${index}`);
      if (state === 'TASK_STATE_COMPLETED') {
        completed++;
        expect(text === said(task)).toBe(true);
      } else {
        expect(state).toBe('TASK_STATE_FAILED');
        expect(reason).toContain('exceed maxHeldChars');
        // What was stored before it failed was sent.
        expect(said(task).startsWith(text)).toBe(true);
      }
    }),
  );
  expect(completed).toBeGreaterThan(STREAMS / 2);
  expect(child.exitCode ?? child.signalCode).toBeNull();
}, 600_000);
