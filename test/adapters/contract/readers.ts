import assert from 'node:assert/strict';
import { a2aEncoder } from '../../../src/a2a/index.ts';
import type { AgentEvent, Entry } from '../../../src/event/types.ts';
import {
  agUiEncoder,
  type OutputMessage,
  type OutputEncoder,
  uiMessageEncoder,
} from '../../../src/outputs/index.ts';
import { numbered, turnOf } from '../../support/arbitraries.ts';
import { agUiReaders, readUi } from '../../outputs/readers.ts';
import { peer } from '../../peers.ts';

const frontEnds = await peer('front-ends');
const a2a = await peer('a2a-sdk');

interface Codec {
  fromJSON(value: unknown): { readonly payload?: { readonly $case: string } };
  toJSON(value: unknown): unknown;
}

/**
 * What the packages of others make of a run, in every protocol that we write it in: AG-UI 1.0 and
 * 0.0.59, the UI message stream, A2A. Throws what they say against it.
 */
export async function readByOthers(events: readonly AgentEvent[]): Promise<void> {
  const log = [{ type: 'turn.submitted', turn: turnOf('m1') } as const, ...events];
  const entries = log.map((event, i) => numbered(event, i + 1));
  if (frontEnds.available) {
    for (const reader of Object.values(await agUiReaders(frontEnds)))
      await reader.read(written(agUiEncoder(), entries));
    const read = await readUi(frontEnds);
    for (const version of [0, 7]) await read(written(uiMessageEncoder({ version }), entries));
  }
  if (a2a.available) {
    const { StreamResponse } = (await a2a.import('@a2a-js/sdk')) as { StreamResponse: Codec };
    for (const pattern of ['artifact', 'status'] as const) {
      const { encode } = a2aEncoder({ pattern });
      for (const event of entries.flatMap((entry) => [...encode(entry)])) {
        const decoded = StreamResponse.fromJSON(event);
        assert.equal(decoded.payload?.$case, Object.keys(event)[0]);
        // Nothing of ours is unknown to it, so nothing is lost on the way through.
        const again = JSON.stringify(StreamResponse.toJSON(decoded));
        for (const text of textsIn(event)) assert.ok(again.includes(JSON.stringify(text)));
      }
    }
  }
}

function written(
  { encode, pause }: OutputEncoder,
  entries: readonly Entry[],
): readonly OutputMessage[] {
  return [...entries.flatMap((entry) => [...encode(entry)]), ...pause()];
}

function textsIn(value: unknown): readonly string[] {
  if (typeof value !== 'object' || value === null) return [];
  const { text } = value as { readonly text?: unknown };
  return [...(typeof text === 'string' ? [text] : []), ...Object.values(value).flatMap(textsIn)];
}
