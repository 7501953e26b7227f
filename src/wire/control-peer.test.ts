import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { verifies } from '../../test/verifies.ts';
import { DuolaneError } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import { type ControlEffect, ControlPeer, isControl } from './control-peer.ts';

const gone = new DuolaneError('peer_exited', 'gone');
const ask = (id: string, subtype = 'x'): JsonObject => ({
  type: 'control_request',
  request_id: id,
  request: { subtype },
});
const nested = (id: string, response?: unknown): JsonObject => ({
  type: 'control_response',
  response: { subtype: 'success', request_id: id, ...(response !== undefined && { response }) },
});

describe('ControlPeer', () => {
  verifies(
    ['S28', 'S31', 'S32'],
    'writes a request envelope and matches the answer by its id',
    () => {
      const peer = new ControlPeer('host');
      const first = peer.request({ subtype: 'initialize', sdkMcpServers: ['calc'] });
      const second = peer.request({ subtype: 'interrupt' });
      expect(first.effect).toEqual({
        do: 'write',
        frame: {
          type: 'control_request',
          request_id: 'host_1',
          request: { subtype: 'initialize', sdkMcpServers: ['calc'] },
        },
      });
      expect(peer.receive(nested(second.id, { still_queued: [] }))).toMatchObject({
        do: 'resolve',
        id: second.id,
        response: { still_queued: [] },
      });
      expect(peer.receive(nested(first.id))).toMatchObject({ do: 'resolve', id: first.id });
      expect(peer.outgoing.size).toBe(0);
    },
  );

  verifies('S29', 'answers in the nested envelope', () => {
    const peer = new ControlPeer();
    peer.receive(ask('c1', 'mcp_message'));
    const mcp_response = { jsonrpc: '2.0', id: 0, result: {} };
    expect(peer.answer('c1', { ok: true, response: { mcp_response } })).toEqual({
      do: 'write',
      frame: {
        type: 'control_response',
        response: { subtype: 'success', request_id: 'c1', response: { mcp_response } },
      },
    });
  });

  verifies('S30', 'reads the flat answer of older peers too', () => {
    const peer = new ControlPeer();
    const { id } = peer.request({ subtype: 'initialize' });
    const frame = { type: 'control_response', request_id: id, response: { commands: [] } };
    expect(peer.receive(frame)).toMatchObject({ do: 'resolve', id, response: { commands: [] } });
  });

  test('a flat response is matched by its outer id, although its payload has a request_id too', () => {
    const peer = new ControlPeer();
    const first = peer.request({ subtype: 'x' });
    const second = peer.request({ subtype: 'x' });
    for (const request_id of ['another', second.id]) {
      const { id } = request_id === 'another' ? first : peer.request({ subtype: 'x' });
      const response = { request_id, commands: [] };
      expect(peer.receive({ type: 'control_response', request_id: id, response })).toMatchObject({
        do: 'resolve',
        id,
        response,
      });
    }
    // With both ids and no doubt, the inner form is the one that is meant.
    const both = { ...nested(second.id, 'yes'), request_id: second.id };
    expect(peer.receive(both)).toMatchObject({ do: 'resolve', id: second.id, response: 'yes' });
    const third = peer.request({ subtype: 'x' });
    const stray = { ...nested(third.id, 'yes'), request_id: 'nobody' };
    expect(peer.receive(stray)).toMatchObject({ do: 'resolve', id: third.id, response: 'yes' });
  });

  test('members beside a response cannot replace it', () => {
    const peer = new ControlPeer();
    peer.receive(ask('c1'));
    const envelope = { pending_permission_requests: [1], subtype: 'error', request_id: 'c2' };
    expect(peer.answer('c1', { ok: true, response: {}, envelope })).toEqual({
      do: 'write',
      frame: {
        type: 'control_response',
        response: {
          pending_permission_requests: [1],
          subtype: 'success',
          request_id: 'c1',
          response: {},
        },
      },
    });
  });

  verifies('S37', 'an error answer keeps its text and code, both ways', () => {
    const peer = new ControlPeer();
    peer.receive(ask('c1', 'no_such'));
    const answer = { ok: false, error: 'Unsupported', errorCode: 'unsupported_request' } as const;
    expect(peer.answer('c1', answer)).toMatchObject({
      frame: {
        response: { subtype: 'error', error: 'Unsupported', error_code: 'unsupported_request' },
      },
    });
    const { id } = peer.request({ subtype: 'no_such' });
    const response = {
      subtype: 'error',
      request_id: id,
      error: 'no',
      error_code: 'unsupported_request',
    };
    expect(peer.receive({ type: 'control_response', response })).toMatchObject({
      do: 'reject',
      error: { code: 'unsupported' },
    });
    expect(peer.receive({ type: 'control_request', request_id: 'c2' })).toMatchObject({
      do: 'write',
      frame: { response: { subtype: 'error', request_id: 'c2' } },
    });
  });

  verifies(
    'S38',
    'an unknown response, a second response and a second request are ignored, with a reason',
    () => {
      const peer = new ControlPeer();
      expect(peer.receive(nested('nobody'))).toMatchObject({ do: 'ignore' });
      const { id } = peer.request({ subtype: 'x' });
      peer.receive(nested(id));
      expect(peer.receive(nested(id))).toMatchObject({ do: 'ignore' });
      peer.receive(ask('c1'));
      expect(peer.receive(ask('c1'))).toMatchObject({ do: 'ignore' });
      expect(peer.receive({ type: 'control_new' })).toMatchObject({ do: 'ignore' });
      expect(peer.receive({ type: 'control_request', request: {} })).toMatchObject({
        do: 'ignore',
      });
    },
  );

  verifies('S34', 'an answer after our end was closed is lost, never silent', () => {
    const peer = new ControlPeer();
    const { id } = peer.request({ subtype: 'initialize' });
    peer.receive(ask('c1', 'mcp_message'));
    expect(peer.closeWrite(gone)).toEqual([]);
    expect(peer.answer('c1', { ok: true })).toMatchObject({ do: 'lost', id: 'c1' });
    expect(peer.request({ subtype: 'y' }).effect).toMatchObject({ do: 'reject' });
    expect(peer.receive(nested(id))).toMatchObject({ do: 'resolve', id });
  });

  test('a response after the peer withdrew its request is dropped without a report', () => {
    const peer = new ControlPeer();
    peer.receive(ask('c1'));
    expect(peer.receive({ type: 'control_cancel_request', request_id: 'c1' })).toMatchObject({
      do: 'abort',
      id: 'c1',
    });
    expect(peer.receive(ask('c1'))).toMatchObject({ do: 'ignore' });
    expect(peer.answer('c1', { ok: true })).toBeUndefined();
    expect(peer.receive(ask('c1'))).toMatchObject({ do: 'serve' });
  });

  verifies('S92', 'leaving by our own will aborts what runs and loses nothing', () => {
    const peer = new ControlPeer();
    peer.receive(ask('c1'));
    expect(peer.closeWrite(gone, { abandon: true })).toMatchObject([{ do: 'abort', id: 'c1' }]);
    expect(peer.answer('c1', { ok: true })).toBeUndefined();
  });

  test('isControl recognizes the control lane', () => {
    expect(isControl(ask('a'))).toBe(true);
    expect(isControl({ type: 'assistant' })).toBe(false);
    expect(isControl({ type: 7 })).toBe(false);
  });

  type Step =
    | { readonly frame: JsonObject }
    | { readonly call: 'answer' | 'drop' | 'cancel'; readonly id: string }
    | { readonly call: 'end' | 'mute' };
  const id = fc.constantFrom('req_1', 'req_2', 'req_3', 'cli_1', 'cli_2');
  const step: fc.Arbitrary<Step> = fc.oneof(
    id.map((each) => ({ frame: ask(each) })),
    id.map((each) => ({ frame: nested(each, {}) })),
    id.map((each) => ({
      frame: { type: 'control_response', response: { subtype: 'error', request_id: each } },
    })),
    id.map((each) => ({ frame: { type: 'control_cancel_request', request_id: each } })),
    fc.record({ call: fc.constantFrom('answer' as const, 'drop' as const, 'cancel' as const), id }),
    fc.record({ call: fc.constantFrom('end' as const, 'mute' as const) }),
  );

  verifies(
    ['S32', 'S39', 'S90'],
    'settles each of ours once and answers each of theirs at most once',
    () => {
      fc.assert(
        fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
          const peer = new ControlPeer();
          const sent = [1, 2, 3].map(() => peer.request({ subtype: 'q' }).id);
          const effects: ControlEffect[] = [];
          const open = new Set<string>();
          for (const each of steps) {
            const out =
              'frame' in each
                ? [peer.receive(each.frame)]
                : each.call === 'answer'
                  ? [peer.answer(each.id, { ok: true })].filter((e) => e !== undefined)
                  : each.call === 'drop'
                    ? (peer.drop(each.id), [])
                    : each.call === 'cancel'
                      ? peer.cancel(each.id, gone)
                      : each.call === 'end'
                        ? peer.end(gone)
                        : peer.closeWrite(gone);
            for (const effect of out) {
              if (effect.do === 'serve') {
                expect(open.has(effect.id)).toBe(false);
                open.add(effect.id);
              }
              const answered =
                effect.do === 'write' && effect.frame['type'] === 'control_response'
                  ? (effect.frame['response'] as { request_id: string }).request_id
                  : effect.do === 'lost'
                    ? effect.id
                    : undefined;
              if (answered !== undefined) expect(open.delete(answered)).toBe(true);
            }
            if ('call' in each && each.call === 'drop') open.delete(each.id);
            effects.push(...out);
            for (const effect of out) if (effect.do === 'abort') open.delete(effect.id);
            for (const each of peer.incoming.keys()) open.add(each);
          }
          effects.push(...peer.end(gone));
          const settled = effects
            .filter((effect) => effect.do === 'resolve' || effect.do === 'reject')
            .map((effect) => effect.id);
          expect(settled.toSorted()).toEqual(sent);
        }),
      );
    },
  );
});
