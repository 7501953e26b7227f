import { EventEmitter, once } from 'node:events';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import type { Agent, Logger } from '../event/types.ts';
import { createRegistry } from '../mcp/registry/registry.ts';
import { memoryLog } from '../task/memory/memory-log.ts';
import { serve } from './serve.ts';

const hello: Agent = async function* () {
  yield { type: 'text.delta', id: 't', delta: 'hello' };
};

const PATHS = [
  '/api/agents/agent/turns',
  '/ui/agent',
  '/ag-ui/agent',
  '/stream-json/agent',
  '/a2a/agent',
  '/a2a/agent/message:send',
  '/mcp',
];
const FRAMINGS = { 'a length': 'content-length: 100', chunks: 'transfer-encoding: chunked' };

test.each(
  PATHS.flatMap((path) =>
    Object.entries(FRAMINGS).map(([name, header]) => [path, name, header] as const),
  ),
)(
  '%s: a client that disconnects inside a body with %s is logged at debug only',
  async (path, _name, header) => {
    const lines: string[] = [];
    const logged = new EventEmitter();
    const first = once(logged, 'line');
    const log =
      (level: string): Logger['error'] =>
      (message, data) => {
        lines.push(`${level} ${message} ${JSON.stringify(data)}`);
        logged.emit('line');
      };
    const logger = {
      error: log('error'),
      warn: log('warn'),
      info: () => {},
      debug: log('debug'),
    };
    await using served = await serve(hello, {
      log: memoryLog(),
      logger,
      page: false,
      tools: createRegistry({ name: 'tools', version: '1' }),
    });
    const socket = connect(Number(new URL(served.url).port), '127.0.0.1');
    await once(socket, 'connect');
    const body = header.startsWith('content-length') ? '{"id"' : '5\r\n{"id"\r\n';
    socket.write(
      `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n` +
        `accept: application/json, text/event-stream\r\nexpect: 100-continue\r\n${header}\r\n\r\n`,
    );
    // The server has begun to handle the request when it sends 100.
    await once(socket, 'data');
    socket.write(body, () => socket.resetAndDestroy());
    await first;
    expect(lines).toEqual([
      expect.stringMatching(/^debug the client disconnected before its request was complete/),
    ]);
  },
);
