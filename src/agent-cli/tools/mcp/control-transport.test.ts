import { expect, test } from 'vitest';
import { DuolaneError } from '../../../errors.ts';
import type { JsonObject } from '../../../json.ts';
import { ControlLink } from '../../../wire/control-link.ts';
import { ControlTransport } from './control-transport.ts';

interface Sent {
  readonly request_id: string;
  readonly request: { readonly message: JsonObject };
}

function open() {
  const frames: JsonObject[] = [];
  const lane = new ControlLink({
    side: 'agent',
    write: (frame) => frames.push(frame),
    handle: () => ({ ok: true }),
  });
  const transport = new ControlTransport(lane, 'calc');
  const incoming = transport.incoming[Symbol.asyncIterator]();
  const next = async (): Promise<unknown> => (await incoming.next()).value;
  const answer = (frame: JsonObject | undefined, response: JsonObject): void => {
    const { request_id } = frame as unknown as Sent;
    lane.receive({
      type: 'control_response',
      response: { subtype: 'success', request_id, response },
    });
  };
  const message = (frame: JsonObject | undefined): JsonObject =>
    (frame as unknown as Sent).request.message;
  return { frames, lane, transport, next, answer, message };
}
const call = (id: number): JsonObject => ({ jsonrpc: '2.0', id, method: 'tools/call', params: {} });

test('a server that exceeds the limit of unread messages is disconnected with an error', async () => {
  const { transport, next } = open();
  const notification = { jsonrpc: '2.0', method: 'notifications/message', params: {} };
  for (let count = 0; count < 20_000; count += 1) transport.receive(notification);
  const read = async (): Promise<number> => {
    for (let count = 0; ; count += 1) if ((await next()) === undefined) return count;
  };
  await expect(read()).rejects.toMatchObject({ code: 'too_large' });
});

test('a response belongs to its control request, whatever its id is', async () => {
  const { frames, transport, next, answer } = open();
  await transport.send(call(1));
  await transport.send(call(2));
  answer(frames[1], { mcp_response: { jsonrpc: '2.0', id: 'wrong', result: { second: true } } });
  answer(frames[0], { mcp_response: { jsonrpc: '2.0', id: 'wrong', result: { first: true } } });
  expect([await next(), await next()]).toEqual([
    { jsonrpc: '2.0', id: 2, result: { second: true } },
    { jsonrpc: '2.0', id: 1, result: { first: true } },
  ]);
});

test('request ids are strings that no server chooses, also in a cancel', async () => {
  const { frames, transport, message } = open();
  await transport.send(call(2));
  await transport.send({
    jsonrpc: '2.0',
    method: 'notifications/cancelled',
    params: { requestId: 2, reason: 'x' },
  });
  expect(message(frames[0])['id']).toBe('d2');
  expect(message(frames[1])).toMatchObject({
    method: 'notifications/cancelled',
    params: { requestId: 'd2', reason: 'x' },
  });
  // The control request of the cancelled call is ended, since hosts never respond to it.
  expect(frames[2]).toMatchObject({
    type: 'control_cancel_request',
    request_id: frames[0]?.['request_id'],
  });
});

test('an error response, an invalid response and a closed input fail the call', async () => {
  const { frames, lane, transport, next, answer } = open();
  await transport.send(call(1));
  lane.receive({
    type: 'control_response',
    response: { subtype: 'error', request_id: frames[0]?.['request_id'], error: 'no such server' },
  });
  expect(await next()).toMatchObject({
    id: 1,
    error: { message: expect.stringContaining('no such server') },
  });
  await transport.send(call(2));
  answer(frames[1], {});
  expect(await next()).toMatchObject({
    id: 2,
    error: { message: 'the host sent a response without mcp_response: expected an object' },
  });
  await transport.send(call(3));
  lane.end(new DuolaneError('closed', 'the host is gone'));
  expect(await next()).toMatchObject({ id: 3, error: { message: 'the host is gone' } });
});

test('messages of the server are delivered, and closing ends the transport', async () => {
  const { transport, next } = open();
  transport.receive({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
  expect(await next()).toMatchObject({ method: 'notifications/tools/list_changed' });
  await transport.close();
  expect(await next()).toBeUndefined();
  transport.receive({ jsonrpc: '2.0', method: 'late' });
});
