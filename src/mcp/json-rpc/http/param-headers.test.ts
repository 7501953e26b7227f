import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../../json.ts';
import { ParamHeaders, paramHeaders } from './param-headers.ts';

const toolOf = (name: string, properties: JsonObject): JsonObject => ({
  name,
  inputSchema: { type: 'object', properties },
});

const region = { type: 'string', 'x-mcp-header': 'Region' };

test('the parameter headers of a call equal its body', () => {
  const known = new ParamHeaders();
  const nested = { type: 'object', properties: { zone: { ...region, 'x-mcp-header': 'Zone' } } };
  const count = { type: 'integer', 'x-mcp-header': 'Count' };
  known.admit([toolOf('go', { region, nested, count, free: { type: 'string' } })]);
  fc.assert(
    fc.property(
      fc.record({
        region: fc.option(fc.string({ unit: 'binary' })),
        nested: fc.record({ zone: fc.string() }),
        count: fc.integer(),
        free: fc.string(),
      }),
      (args) => {
        const sent = known.of('go', args);
        const headers = new Headers(sent);
        expect(known.mismatch('go', args, headers)).toBeUndefined();
        expect(Object.keys(sent)).not.toContain('mcp-param-free');
        expect(sent['mcp-param-region'] === undefined).toBe(args.region === null);
        const other = { ...args, count: args.count + 1 };
        expect(known.mismatch('go', other, headers)).toBe('mcp-param-count');
        headers.delete('mcp-param-zone');
        expect(known.mismatch('go', args, headers)).toBe('mcp-param-zone');
      },
    ),
  );
});

test('only a tool with invalid header declarations is omitted, with the reason', () => {
  const bad: Record<string, JsonObject> = {
    empty: { a: { ...region, 'x-mcp-header': '' } },
    spaced: { a: { ...region, 'x-mcp-header': 'My Region' } },
    number: { a: { type: 'number', 'x-mcp-header': 'A' } },
    twice: { a: region, b: { ...region, 'x-mcp-header': 'region' } },
    hidden: { a: { type: 'array', items: region } },
    choice: { a: { anyOf: [region, { type: 'null' }] } },
  };
  const tools = Object.entries(bad).map(([name, properties]) => toolOf(name, properties));
  const refused: string[] = [];
  const good = toolOf('good', { a: { type: 'object', default: { 'x-mcp-header': 'no schema' } } });
  const known = new ParamHeaders();
  expect(known.admit([...tools, good, 'junk'], (name) => refused.push(name))).toEqual([
    good,
    'junk',
  ]);
  expect(refused).toEqual(Object.keys(bad));
});

test('a schema of any depth is searched without a stack overflow', () => {
  let schema: JsonObject = { properties: { a: region } };
  for (let depth = 0; depth < 5_000; depth += 1) schema = { items: schema };
  expect(paramHeaders(schema)).toEqual([]);
});
