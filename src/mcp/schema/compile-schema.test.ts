import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import * as mini from 'zod/mini';
import { z as z3 } from 'zod/v3';
import { verifies } from '../../../test/verifies.ts';
import { compileSchema, describeProblems } from './compile-schema.ts';

const check = async (schema: unknown, value: unknown): Promise<unknown> => {
  const checked = await compileSchema(schema).check(value);
  return checked.ok ? checked.value : describeProblems(checked.problems);
};

const expected = {
  type: 'object',
  properties: {
    kind: { type: 'string', enum: ['bug', 'feature', 'task'], description: 'What it is' },
    title: { type: 'string', minLength: 1 },
    points: { type: 'number' },
  },
  required: ['kind', 'title'],
};

const KINDS = ['bug', 'feature', 'task'] as const;
const shape4 = {
  kind: z.enum(KINDS).describe('What it is'),
  title: z.string().min(1),
  points: z.number().optional(),
};
const shape3 = {
  kind: z3.enum(KINDS).describe('What it is'),
  title: z3.string().min(1),
  points: z3.number().optional(),
};

describe('one schema in six forms,', () => {
  for (const [name, schema] of [
    ['zod 4 shape', shape4],
    ['zod 4 object', z.object(shape4)],
    ['zod 3 shape', shape3],
    ['zod 3 object', z3.object(shape3)],
    ['JSON Schema', expected],
    ['JSON Schema, draft-07', { $schema: 'http://json-schema.org/draft-07/schema#', ...expected }],
  ] as const)
    verifies('S63', `as ${name} has the same JSON Schema and names the invalid field`, async () => {
      expect(compileSchema(schema).json).toMatchObject(expected);
      const good = { kind: 'bug', title: 'x' };
      expect(await check(schema, good)).toEqual(good);
      expect(await check(schema, { kind: 'enhancement', title: 'x' })).toMatch(
        /^kind: .*bug.*feature.*task/,
      );
      expect(await check(schema, { kind: 'bug' })).toMatch(/^title: /);
      expect(await check(schema, { kind: 'bug', title: 'x', points: 'many' })).toMatch(/^points: /);
    });
});

test('zod mini works, too, although it cannot describe itself', async () => {
  const shape = { a: mini.string(), b: mini.optional(mini.number()) };
  expect(compileSchema(shape).json).toEqual({
    type: 'object',
    properties: { a: { type: 'string' }, b: { type: 'number' } },
    required: ['a'],
  });
  expect(await check(shape, { a: 'x', more: 1 })).toEqual({ a: 'x' });
});

test('defaults and transforms reach the handler, and the default is not required', async () => {
  for (const schema of [
    { n: z.number().default(3), s: z.string().transform((text) => text.length) },
    { n: z3.number().default(3), s: z3.string().transform((text) => text.length) },
  ]) {
    expect(compileSchema(schema).json['required']).toEqual(['s']);
    expect(await check(schema, { s: 'abc' })).toEqual({ n: 3, s: 3 });
  }
});

test('asynchronous checks are awaited', async () => {
  const schema = { a: z.string().refine(async (text) => text === 'yes', 'say yes') };
  expect(await check(schema, { a: 'yes' })).toEqual({ a: 'yes' });
  expect(await check(schema, { a: 'no' })).toBe('a: say yes');
});

test('a reference in a recursive field points to its new position', () => {
  interface Node {
    readonly children: readonly Node[];
  }
  const node: z.ZodType<Node> = z.object({
    get children() {
      return z.array(node);
    },
  });
  const { json } = compileSchema({ tree: node });
  expect(JSON.stringify(json)).toContain('"$ref":"#/properties/tree');
});

test('any Standard Schema works if it provides its JSON Schema', async () => {
  const standard = (jsonSchema?: object): object => ({
    '~standard': {
      version: 1,
      vendor: 'mine',
      validate: (value: { a?: unknown }) =>
        value.a === 1 ? { value } : { issues: [{ message: 'must be 1', path: [{ key: 'a' }] }] },
      ...(jsonSchema && { jsonSchema: { input: () => jsonSchema } }),
    },
  });
  expect(await check(standard({ type: 'object' }), { a: 1 })).toEqual({ a: 1 });
  expect(await check(standard({ type: 'object' }), { a: 2 })).toBe('a: must be 1');
  expect(() => compileSchema(standard())).toThrow(/does not provide its JSON Schema/);
});

test('problems of JSON Schema are described as text', async () => {
  const schema = {
    type: 'object',
    properties: { a: { type: 'object', properties: { 'b/c': { const: 1 } } }, f: { format: 'x' } },
    additionalProperties: false,
    unknownKeyword: true,
  };
  expect(await check(schema, { a: { 'b/c': 2 }, z: 1, f: 'free' })).toBe(
    'z: is not known; a.b/c: must be 1',
  );
  expect(await check({ type: 'object', required: ['q'] }, {})).toBe('q: is required');
});

test('a long list of problems is truncated', async () => {
  const properties = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`f${n}`, {}]));
  const text = await check({ type: 'object', required: Object.keys(properties) }, {});
  expect(text).toMatch(/f9: is required; and 20 more$/);
});

test('a schema that is invalid or not of an object is refused with the reason', () => {
  expect(() => compileSchema(z.string())).toThrow(/of an object, got "string"/);
  expect(() => compileSchema({ type: 'array' })).toThrow(/expected a schema of an object/);
  expect(() => compileSchema({ a: z.string(), b: 3 })).toThrow(/a schema in field "b"/);
  expect(() => compileSchema({ when: z.date() })).toThrow(/field "when"/);
  expect(() => compileSchema({ when: z3.date() })).toThrow(
    /field "when": JSON Schema has no equivalent of ZodDate/,
  );
  expect(() => compileSchema({ type: 'object', required: null })).toThrow(
    /expected valid JSON Schema/,
  );
  expect(() => compileSchema(null)).toThrow(/expected a schema, got null/);
  expect(() => compileSchema('x')).toThrow(/expected a schema, got string/);
});

test('the same $id may be compiled again, as for a replaced tool', () => {
  const schema = (): object => ({ $id: 'https://example.test/a', type: 'object' });
  expect(compileSchema(schema()).json).toEqual(schema());
  expect(compileSchema(schema()).json).toEqual(schema());
});

test('zod 3 kinds become the JSON Schema of their input', () => {
  // What TypeScript makes of `enum Level { Low, High }`.
  const Level = { Low: 0, High: 1, 0: 'Low', 1: 'High' };
  const { json } = compileSchema({
    s: z3.string().email().max(9).regex(/^a/),
    n: z3.number().int().gt(1).lte(5).multipleOf(2),
    l: z3.literal('x'),
    e: z3.nativeEnum(Level),
    a: z3.array(z3.boolean()).min(1).max(2),
    t: z3.tuple([z3.string(), z3.null()]),
    r: z3.record(z3.number()),
    u: z3.union([z3.string(), z3.number()]),
    d: z3.discriminatedUnion('k', [
      z3.object({ k: z3.literal(1) }),
      z3.object({ k: z3.literal(2) }).strict(),
    ]),
    i: z3.intersection(z3.object({ x: z3.any() }), z3.object({ y: z3.unknown() })),
    z: z3.lazy(() => z3.string().nullable()),
    p: z3.string().pipe(z3.string()).readonly().catch('c').brand('b'),
  });
  expect(json['properties']).toEqual({
    s: { type: 'string', format: 'email', maxLength: 9, pattern: '^a' },
    n: { type: 'integer', exclusiveMinimum: 1, maximum: 5, multipleOf: 2 },
    l: { const: 'x' },
    e: { enum: [0, 1] },
    a: { type: 'array', items: { type: 'boolean' }, minItems: 1, maxItems: 2 },
    t: {
      type: 'array',
      prefixItems: [{ type: 'string' }, { type: 'null' }],
      items: false,
      minItems: 2,
    },
    r: { type: 'object', additionalProperties: { type: 'number' } },
    u: { anyOf: [{ type: 'string' }, { type: 'number' }] },
    d: {
      anyOf: [
        { type: 'object', properties: { k: { const: 1 } }, required: ['k'] },
        {
          type: 'object',
          properties: { k: { const: 2 } },
          required: ['k'],
          additionalProperties: false,
        },
      ],
    },
    i: {
      allOf: [
        { type: 'object', properties: { x: {} } },
        { type: 'object', properties: { y: {} } },
      ],
    },
    z: { anyOf: [{ type: 'string' }, { type: 'null' }] },
    p: { type: 'string' },
  });
});

test('a zod 3 schema that contains itself is refused', () => {
  const node: z3.ZodTypeAny = z3.lazy(() => z3.object({ next: node }));
  expect(() => compileSchema({ node })).toThrow(/contains itself/);
});

test('an asynchronous JSON Schema, which would accept everything, is refused', () => {
  expect(() => compileSchema({ $async: true, type: 'object' })).toThrow('$async');
});
