import { expect, test } from 'vitest';
import { type ControlEffect, ControlPeer } from './control-peer.ts';

const ask = (request_id: unknown): ControlEffect & { readonly id?: string } =>
  peer.receive({ type: 'control_request', request_id, request: { subtype: 'x' } });
const answered = (effect: ControlEffect & { readonly id?: string }): unknown =>
  peer.answer(effect.id ?? '', { ok: true, response: 1 });
let peer = new ControlPeer();

test.each([7, 0, -1, 1.5, '7', ''])('a request with the id %j is answered under it', (id) => {
  peer = new ControlPeer();
  const effect = ask(id);
  expect(effect).toMatchObject({ do: 'serve' });
  expect(answered(effect)).toEqual({
    do: 'write',
    frame: {
      type: 'control_response',
      response: { subtype: 'success', request_id: id, response: 1 },
    },
  });
});

test('1 and "1" are two requests', () => {
  peer = new ControlPeer();
  const [number, text] = [ask(1), ask('1')];
  expect(answered(text)).toMatchObject({ frame: { response: { request_id: '1' } } });
  expect(answered(number)).toMatchObject({ frame: { response: { request_id: 1 } } });
});

test('a request with a number is withdrawn by that number', () => {
  peer = new ControlPeer();
  const { id } = ask(3);
  const withdrawn = peer.receive({ type: 'control_cancel_request', request_id: 3 });
  expect(withdrawn).toMatchObject({ do: 'abort', id });
});

test.each([undefined, null, {}, true])('a request with the id %j is reported', (id) => {
  peer = new ControlPeer();
  expect(ask(id)).toMatchObject({ do: 'ignore', unanswerable: true });
});
