import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DuolaneError } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import { type ControlEffect, ControlPeer } from './control-peer.ts';

/** Ids that meet those of our own requests, and names that a careless map would trip over. */
const id = fc.constantFrom('p_1', 'p_2', 'p_3', 'c1', 'c2', '', '__proto__', 'constructor');
const badId = fc.constantFrom<unknown>(null, 0, 1, {}, [], { toString: 1, valueOf: 1 }, undefined);
const anyId = fc.oneof({ weight: 6, arbitrary: id as fc.Arbitrary<unknown> }, badId);
const payload = fc.oneof(fc.jsonValue() as fc.Arbitrary<unknown>, fc.constant(undefined));

const request = fc.record({
  type: fc.constant('control_request'),
  request_id: anyId,
  request: fc.oneof(
    fc.record({ subtype: fc.constantFrom('mcp_message', 'from_the_future') }),
    payload,
  ),
});
const nested = fc.record({
  type: fc.constant('control_response'),
  response: fc.record({
    subtype: fc.constantFrom<unknown>('success', 'error', 'odd', undefined),
    request_id: anyId,
    response: payload,
    error: payload,
    error_code: payload,
  }),
});
const flat = fc.record({
  type: fc.constant('control_response'),
  request_id: anyId,
  response: payload,
});
const cancel = fc.record({ type: fc.constant('control_cancel_request'), request_id: anyId });
const unknown = fc.record({ type: fc.constantFrom('control_', 'control_x'), request_id: anyId });
const frame: fc.Arbitrary<JsonObject> = fc.oneof(request, nested, flat, cancel, unknown);

type Step =
  | { readonly kind: 'frame'; readonly frame: JsonObject }
  | { readonly kind: 'ask' }
  | { readonly kind: 'cancel' | 'answer' | 'refuse'; readonly id: string }
  | { readonly kind: 'mute' | 'end' };
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: frame.map((each) => ({ kind: 'frame', frame: each }) as const) },
  { weight: 2, arbitrary: fc.constant({ kind: 'ask' } as const) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constantFrom('cancel', 'answer', 'refuse'), id }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('mute', 'end') }) },
);

const gone = new DuolaneError('peer_exited', 'gone');

function run(peer: ControlPeer, each: Step, asked: string[]): readonly ControlEffect[] {
  switch (each.kind) {
    case 'frame':
      return [peer.receive(each.frame)];
    case 'ask': {
      const { id: ours, effect } = peer.request({ subtype: 'interrupt' });
      asked.push(ours);
      return [effect];
    }
    case 'cancel':
      return peer.cancel(each.id, gone);
    case 'answer':
      return [peer.answer(each.id, { ok: true, response: {} })].filter((e) => e !== undefined);
    case 'refuse':
      return [peer.answer(each.id, { ok: false, error: 'no' })].filter((e) => e !== undefined);
    case 'mute':
      return peer.closeWrite(gone);
    case 'end':
      return peer.end(gone);
  }
}

/** The id under which an effect answers the peer, whether or not the answer arrives. */
function answered(effect: ControlEffect): string | undefined {
  if (effect.do === 'lost') return effect.id;
  if (effect.do !== 'write' || effect.frame['type'] !== 'control_response') return undefined;
  return (effect.frame['response'] as { request_id: string }).request_id;
}

const steps = fc.array(step, { maxLength: 60, size: 'max' });

test('every request of ours is settled exactly once, for any frames in any order', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const peer = new ControlPeer('p');
      const asked: string[] = [];
      const effects = all.flatMap((each) => run(peer, each, asked));
      effects.push(...peer.end(gone));
      const settled = effects.flatMap((each) =>
        each.do === 'resolve' || each.do === 'reject' ? [each.id] : [],
      );
      expect(settled.toSorted()).toEqual(asked.toSorted());
      expect(peer.outgoing.size).toBe(0);
    }),
    { numRuns: 500 },
  );
});

test('while a request of the peer is served, only our handler responds under its id', () => {
  fc.assert(
    fc.property(steps, (all) => {
      const peer = new ControlPeer('p');
      const serving = new Set<string>(); // our own book, by the effects alone
      const withdrawn = new Set<string>();
      const wrong: string[] = [];
      for (const each of all) {
        for (const effect of run(peer, each, [])) {
          const to = answered(effect);
          const ours = each.kind === 'answer' || each.kind === 'refuse';
          if (to !== undefined && ours && !serving.delete(to)) wrong.push(`answered twice: ${to}`);
          if (to !== undefined && !ours && serving.has(to)) wrong.push(`answered behind: ${to}`);
          if (effect.do === 'serve') {
            if (serving.has(effect.id) || withdrawn.has(effect.id)) wrong.push('served twice');
            serving.add(effect.id);
          }
          if (effect.do === 'abort' && each.kind === 'frame') {
            serving.delete(effect.id);
            withdrawn.add(effect.id);
          }
        }
        if (each.kind === 'answer' || each.kind === 'refuse') withdrawn.delete(each.id);
      }
      expect(wrong).toEqual([]);
      expect(new Set(peer.incoming.keys())).toEqual(serving);
    }),
    { numRuns: 500 },
  );
});

test('after closeWrite nothing is written, and every lost response is reported', () => {
  fc.assert(
    fc.property(steps, steps, fc.boolean(), (before, after, ended) => {
      const peer = new ControlPeer('p');
      for (const each of before) run(peer, each, []);
      if (ended) peer.end(gone);
      else peer.closeWrite(gone);
      const wrong: string[] = [];
      for (const each of after) {
        const waits = 'id' in each && each.kind !== 'cancel' && peer.incoming.has(each.id);
        const effects = run(peer, each, []);
        if (effects.some((effect) => effect.do === 'write')) wrong.push('written');
        if (waits && effects[0]?.do !== 'lost') wrong.push('silent');
      }
      expect(wrong).toEqual([]);
    }),
    { numRuns: 500 },
  );
});

test('a response in either envelope settles the request that it names, and no other', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.boolean(), (response, isFlat) => {
      const peer = new ControlPeer('p');
      const [first, second] = [peer.request({ subtype: 'a' }), peer.request({ subtype: 'b' })];
      const answer = isFlat
        ? { type: 'control_response', request_id: second.id, response }
        : {
            type: 'control_response',
            response: { subtype: 'success', request_id: second.id, response },
          };
      expect(peer.receive(answer)).toMatchObject({ do: 'resolve', id: second.id, response });
      expect(peer.receive(answer)).toMatchObject({ do: 'ignore' });
      expect([...peer.outgoing.keys()]).toEqual([first.id]);
    }),
  );
});
