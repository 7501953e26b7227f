import { expect, test } from 'vitest';
import { verifies } from '../../../test/verifies.ts';
import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { ControlResponse } from '../../wire/control-peer.ts';
import { ControlLink, type ServeContext } from './control-link.ts';
import { StdinGate } from './stdin-gate.ts';
import { TurnTracker } from './turn-tracker.ts';

/** A router alone: what it wrote, and the requests that it handed out, each to be answered by hand. */
function routing() {
  const written: JsonObject[] = [];
  const lost: string[] = [];
  const served: {
    readonly subtype: string;
    readonly context: ServeContext;
    readonly answer: (answer: ControlResponse | undefined) => void;
    readonly fail: (error: Error) => void;
  }[] = [];
  const gate = new StdinGate(new TurnTracker());
  const dialogue = new ControlLink({
    gate,
    write: (frame) => written.push(frame),
    serve: ({ subtype }, context) =>
      new Promise((answer, fail) => served.push({ subtype, context, answer, fail })),
    onLost: ({ subtype }) => lost.push(subtype),
    onIgnored: () => {},
    onSettled: () => {},
  });
  const ask = (request_id: string, subtype: string): void =>
    dialogue.receive({ type: 'control_request', request_id, request: { subtype } });
  return { dialogue, gate, written, lost, served, ask };
}

const idOf = ({ response }: JsonObject): unknown => (response as JsonObject)['request_id'];
const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

verifies(
  'S6',
  'the control request router, alone: each request runs for itself and is answered under its id',
  async () => {
    const { gate, written, served, ask } = routing();
    ask('a', 'mcp_message');
    ask('b', 'can_use_tool');
    ask('c', 'hook_callback');
    expect(served.map(({ subtype }) => subtype)).toEqual([
      'mcp_message',
      'can_use_tool',
      'hook_callback',
    ]);
    expect(gate.holding).toHaveLength(3);
    served[2]?.answer({ ok: true, response: {} });
    served[1]?.fail(new Error('the handler threw'));
    served[0]?.answer(undefined);
    await tick();
    expect(written.map(idOf)).toEqual(['c', 'b']);
    expect(written[1]).toMatchObject({
      response: { subtype: 'error', error: 'the handler threw' },
    });
    expect(gate.holding).toEqual([]);
  },
);

test('a request that is withdrawn aborts its handler, and its answer is dropped', async () => {
  const { dialogue, written, lost, served, ask } = routing();
  ask('a', 'can_use_tool');
  const { signal } = served[0]!.context;
  dialogue.receive({ type: 'control_cancel_request', request_id: 'a' });
  expect(signal.aborted).toBe(true);
  served[0]?.answer({ ok: true });
  await tick();
  expect([written, lost]).toEqual([[], []]);
});

test('an answer that has nowhere to go is told as lost', async () => {
  const { dialogue, lost, served, ask } = routing();
  ask('a', 'mcp_message');
  dialogue.closeWrite(new DuolaneError('closed', 'stdin is closed'));
  served[0]?.answer({ ok: true });
  await tick();
  expect(lost).toEqual(['mcp_message']);
});

test('requests of ours are settled by their id, by a refusal with its code, or by the end', async () => {
  const { dialogue, written } = routing();
  const first = dialogue.request('mcp_status');
  const second = dialogue.request('no_such');
  const third = dialogue.request('interrupt');
  const ids = written.map(({ request_id }) => request_id);
  const refusal = { subtype: 'error', error: 'Unsupported', error_code: 'unsupported_request' };
  dialogue.receive({ type: 'control_response', response: { ...refusal, request_id: ids[1] } });
  const success = { subtype: 'success', request_id: ids[0], response: { mcpServers: [] } };
  dialogue.receive({ type: 'control_response', response: success });
  dialogue.end(new DuolaneError('peer_exited', 'gone'));
  await expect(first).resolves.toMatchObject({ response: { mcpServers: [] } });
  await expect(second).rejects.toMatchObject({
    code: 'unsupported',
    errorCode: 'unsupported_request',
  });
  await expect(third).rejects.toMatchObject({ code: 'peer_exited' });
});
