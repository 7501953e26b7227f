import { describe, expect, test } from 'vitest';
import { verifies } from '../../test/verifies.ts';
import { DuolaneError } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import {
  type ControlCall,
  type ControlHandler,
  ControlLink,
  type ControlLinkOptions,
} from './control-link.ts';
import type { ControlResponse } from './control-peer.ts';

/** The link of a host: its frames, and the requests that it handed out, each answered by hand. */
function hostLink() {
  const written: JsonObject[] = [];
  const lost: string[] = [];
  const served: {
    readonly subtype: string;
    readonly call: ControlCall;
    readonly answer: (answer: ControlResponse | undefined) => void;
    readonly fail: (error: Error) => void;
  }[] = [];
  const link = new ControlLink({
    side: 'host',
    write: (frame) => written.push(frame),
    handle: ({ subtype }, call) =>
      new Promise((answer, fail) => served.push({ subtype, call, answer, fail })),
    onLost: ({ subtype }) => lost.push(subtype),
  });
  return { link, written, lost, served, ask: asking(link) };
}

/** The link of an agent CLI: no listener for lost responses, and error codes. */
function agentLink(handle: ControlHandler, more: Partial<ControlLinkOptions> = {}) {
  const written: JsonObject[] = [];
  const link = new ControlLink({
    side: 'agent',
    write: (frame) => written.push(frame),
    handle,
    errorCodes: true,
    ...more,
  });
  return { link, written, ask: asking(link) };
}

const asking =
  (link: ControlLink) =>
  (request_id: string, subtype: string): void =>
    link.receive({ type: 'control_request', request_id, request: { subtype } });

const idOf = ({ response }: JsonObject): unknown => (response as JsonObject)['request_id'];
const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

verifies(
  'S6',
  'the control link, alone: each request runs for itself and is answered under its id',
  async () => {
    const { link, written, served, ask } = hostLink();
    ask('a', 'mcp_message');
    ask('b', 'can_use_tool');
    ask('c', 'hook_callback');
    expect(served.map(({ subtype }) => subtype)).toEqual([
      'mcp_message',
      'can_use_tool',
      'hook_callback',
    ]);
    expect(link.pendingCount).toBe(3);
    served[2]?.answer({ ok: true, response: {} });
    served[1]?.fail(new Error('the handler threw'));
    served[0]?.answer(undefined);
    await tick();
    expect(written.map(idOf)).toEqual(['c', 'b']);
    expect(written[1]).toEqual({
      type: 'control_response',
      response: { subtype: 'error', request_id: 'b', error: 'the handler threw' },
    });
    expect([link.pendingCount, ...link.pending()]).toEqual([0]);
  },
);

test('a withdrawn request aborts its handler, and its response is dropped', async () => {
  const { link, written, lost, served, ask } = hostLink();
  ask('a', 'can_use_tool');
  const { signal } = served[0]!.call;
  link.receive({ type: 'control_cancel_request', request_id: 'a' });
  expect(signal.aborted).toBe(true);
  expect(link.pendingCount).toBe(0);
  served[0]?.answer({ ok: true });
  await tick();
  expect([written, lost]).toEqual([[], []]);
});

test('a response that cannot be written is reported as lost', async () => {
  const { link, lost, served, ask } = hostLink();
  ask('a', 'mcp_message');
  link.closeWrite(new DuolaneError('closed', 'stdin is closed'));
  served[0]?.answer({ ok: true });
  await tick();
  expect(lost).toEqual(['mcp_message']);
});

test('requests settle by their id, by an error with its code, or at the end', async () => {
  const { link, written } = hostLink();
  const first = link.request({ subtype: 'mcp_status' });
  const second = link.request({ subtype: 'no_such' });
  const third = link.request({ subtype: 'interrupt' });
  const ids = written.map(({ request_id }) => request_id);
  const error = { subtype: 'error', error: 'Unsupported', error_code: 'unsupported_request' };
  link.receive({ type: 'control_response', response: { ...error, request_id: ids[1] } });
  const success = { subtype: 'success', request_id: ids[0], response: { mcpServers: [] } };
  link.receive({ type: 'control_response', response: success });
  link.end(new DuolaneError('peer_exited', 'gone'));
  await expect(first).resolves.toEqual({ mcpServers: [] });
  await expect(second).rejects.toMatchObject({
    code: 'unsupported',
    errorCode: 'unsupported_request',
  });
  await expect(third).rejects.toMatchObject({ code: 'peer_exited' });
});

test('requests are pending until they settle, unless they are sent without hold', async () => {
  const changes: number[] = [];
  const { link, written } = agentLink(() => undefined, {
    onPendingChange: () => changes.push(link.pendingCount),
  });
  const held = link.request({ subtype: 'can_use_tool', tool_name: 'Bash' });
  const unheld = link.request({ subtype: 'mcp_message' }, { hold: false });
  expect([link.asking, ...link.pending()]).toEqual([2, 'can_use_tool']);
  expect(link.unanswered('can_use_tool')).toEqual([written[0]]);
  for (const { request_id } of written)
    link.receive({ type: 'control_response', response: { subtype: 'success', request_id } });
  await Promise.all([held, unheld]);
  expect(changes).toEqual([0, 0]);
  expect([link.asking, link.pendingCount]).toEqual([0, 0]);
});

test('a request without a JSON form is rejected, and the next one works', async () => {
  const { link } = agentLink(() => undefined, {
    write: (frame) => void JSON.stringify(frame),
  });
  await expect(link.request({ subtype: 'x', big: 1n })).rejects.toMatchObject({ code: 'invalid' });
  expect([link.asking, link.pendingCount]).toEqual([0, 0]);
});

test('a response without a JSON form becomes an error response', () => {
  const written: JsonObject[] = [];
  const { ask } = agentLink(() => ({ ok: true, response: { big: 1n } }), {
    write: (frame) => written.push(JSON.parse(JSON.stringify(frame)) as JsonObject),
  });
  ask('a', 'x');
  expect(written).toMatchObject([{ response: { subtype: 'error', request_id: 'a' } }]);
});

describe('the link of an agent CLI', () => {
  test('writes a synchronous response before anything else', () => {
    const { written, ask } = agentLink(() => ({ ok: true }));
    ask('a', 'interrupt');
    expect(written.map(idOf)).toEqual(['a']);
  });

  test('adds the error code of a handler that throws, also synchronously', async () => {
    const { written, ask } = agentLink(({ subtype }) => {
      const error = new DuolaneError('unsupported', 'no');
      if (subtype === 'now') throw error;
      return Promise.reject(error);
    });
    ask('a', 'now');
    ask('b', 'later');
    await tick();
    expect(written.map(({ response }) => response)).toEqual(
      ['a', 'b'].map((request_id) => ({
        subtype: 'error',
        request_id,
        error: 'no',
        error_code: 'unsupported_request',
      })),
    );
  });

  test('writes responses and notifications after its input has ended', async () => {
    let answer: (response: ControlResponse) => void = () => {};
    const { link, written, ask } = agentLink(() => new Promise((resolve) => (answer = resolve)));
    ask('a', 'x');
    link.end(new DuolaneError('closed', 'the input has ended'));
    answer({ ok: true });
    await tick();
    link.notify({ subtype: 'hook_callback' });
    expect(written).toMatchObject([
      { type: 'control_response', response: { request_id: 'a' } },
      { type: 'control_request', request: { subtype: 'hook_callback' } },
    ]);
  });

  test('reports a request that has no usable id', () => {
    const ignored: unknown[] = [];
    const { link } = agentLink(() => undefined, {
      onIgnored: (_, __, unanswerable) => ignored.push(unanswerable),
    });
    link.receive({ type: 'control_request', request: { subtype: 'x' } });
    link.receive({ type: 'control_response', response: { request_id: 'unknown' } });
    expect(ignored).toEqual([true, false]);
  });
});
