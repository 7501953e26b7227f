import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../json.ts';
import { ToolBatchSchema } from '../gen/mcp/stream/v1/mcp_pb.ts';
import { BatchWriter, decodeBatch } from './batch-codec.ts';
import { type Layout, PROMPT, RESOURCE, RESOURCE_TEMPLATE, TOOL } from './field-layout.ts';

const LAYOUTS: readonly Layout[] = [TOOL, RESOURCE, RESOURCE_TEMPLATE, PROMPT];

const few = { maxKeys: 3 };

/** Objects with the members that an item has, of the right type or any other, and with strangers. */
const item = (layout: Layout): fc.Arbitrary<JsonObject> =>
  fc
    .tuple(
      fc.dictionary(fc.constantFrom(...layout.fields.keys()), fc.string({ unit: 'binary' }), few),
      fc.dictionary(fc.constantFrom(...layout.fields.keys()), fc.jsonValue({ maxDepth: 2 }), few),
      fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 1 }), few),
    )
    .map(([texts, values, others]) => ({ ...others, ...values, ...texts }));

function batchOf(layout: Layout, items: readonly JsonObject[], checkpoint?: string): Uint8Array {
  const batch = new BatchWriter(layout);
  for (const one of items) batch.add(one);
  return batch.take(checkpoint);
}

const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe('the items of a list', () => {
  test('are decoded as they were encoded, whatever members they have', () => {
    fc.assert(
      fc.property(
        fc
          .constantFrom(...LAYOUTS)
          .chain((layout) =>
            fc.tuple(fc.constant(layout), fc.array(item(layout), { maxLength: 3 })),
          ),
        fc.option(fc.string({ unit: 'grapheme' }), { nil: undefined }),
        ([layout, items], checkpoint) => {
          const bytes = batchOf(layout, items, checkpoint);
          expect(json(decodeBatch(layout, bytes))).toEqual(json({ items, checkpoint }));
        },
      ),
    );
  });

  test('may have any number and size: lengths of one to four bytes, and a buffer that grows', () => {
    const batch = new BatchWriter(TOOL);
    for (const sizes of [
      [0, 50, 127, 128],
      [20_000, 0, 3],
      [3_000_000, 1],
      [1, 5_000, 200],
    ]) {
      const items = sizes.flatMap((size) =>
        ['x', 'ä', '\u{1f600}'].map((unit) => ({
          name: unit.repeat(size),
          inputSchema: { [unit]: size },
        })),
      );
      for (const one of items) batch.add(one);
      expect(decodeBatch(TOOL, batch.take(undefined)).items).toEqual(items);
      expect(batch.empty).toBe(true);
    }
  });

  test('are a batch without an item that JSON cannot encode', () => {
    const batch = new BatchWriter(TOOL);
    batch.add({ name: 'a', inputSchema: {} });
    expect(() => batch.add({ name: 'b', inputSchema: { n: 1n } })).toThrow(TypeError);
    batch.add({ name: 'c', inputSchema: {} });
    const { items } = decodeBatch(TOOL, batch.take(undefined));
    expect(items.map(({ name }) => name)).toEqual(['a', 'c']);
  });

  test('are the bytes that generated code reads', () => {
    const tool = {
      name: 'search',
      description: 'Ünïcode',
      inputSchema: { type: 'object', properties: { b: {}, a: {} } },
      _meta: { z: 1, a: 2 },
      execution: { taskSupport: 'never' },
      title: 7,
    };
    const read = fromBinary(ToolBatchSchema, batchOf(TOOL, [tool], 'c1'));
    expect(read.checkpoint).toBe('c1');
    expect(read.items).toHaveLength(1);
    expect(read.items[0]).toMatchObject({
      name: 'search',
      description: 'Ünïcode',
      inputSchemaJson: '{"type":"object","properties":{"b":{},"a":{}}}',
      metaJson: '{"z":1,"a":2}',
      extraJson: '{"execution":{"taskSupport":"never"},"title":7}',
    });
    expect(read.items[0]?.title).toBeUndefined();
  });

  test('are read from the bytes that generated code writes', () => {
    const bytes = toBinary(
      ToolBatchSchema,
      create(ToolBatchSchema, {
        items: [
          { name: 'a', inputSchemaJson: '{}' },
          { name: '', extraJson: '{"__proto__":1}' },
        ],
        checkpoint: '',
      }),
    );
    const { items, checkpoint } = decodeBatch(TOOL, bytes);
    expect(checkpoint).toBe('');
    expect(items[0]).toEqual({ name: 'a', inputSchema: {} });
    expect(Object.keys(items[1]!)).toEqual(['name', '__proto__']);
  });

  test('unknown fields are skipped, and invalid bytes are malformed', () => {
    const one = batchOf(TOOL, [{ name: 'a', inputSchema: {} }]);
    const strange = Buffer.from([0x50, 0x80, 0x01, 0x5a, 1, 7, 0x61, 1, 2, 3, 4, 5, 6, 7, 8]);
    expect(decodeBatch(TOOL, Buffer.concat([strange, one])).items).toHaveLength(1);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          decodeBatch(TOOL, bytes);
        } catch (error) {
          expect(error).toMatchObject({ code: 'malformed' });
        }
      }),
      { numRuns: 1_000 },
    );
  });
});
