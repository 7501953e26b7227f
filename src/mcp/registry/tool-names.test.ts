import fc from 'fast-check';
import { expect, test } from 'vitest';
import { verifies } from '../../../test/verifies.ts';
import { matchesToolName, parseToolName, toolName } from './tool-names.ts';

verifies('S74', 'the model sees mcp__server__tool, and it parses back', () => {
  expect(toolName('cci', 'create_ticket')).toBe('mcp__cci__create_ticket');
  expect(parseToolName('mcp__briefing__search_clinical_guidelines')).toEqual({
    server: 'briefing',
    tool: 'search_clinical_guidelines',
  });
  expect(parseToolName('Bash')).toBeUndefined();
  expect(parseToolName('mcp__cci')).toBeUndefined();
  const server = fc.stringMatching(/^[a-z0-9-]+(_[a-z0-9-]+)*$/);
  const tool = fc.stringMatching(/^[a-z0-9-][A-Za-z0-9_.-]*$/);
  fc.assert(
    fc.property(server, tool, (from, name) => {
      expect(parseToolName(toolName(from, name))).toEqual({ server: from, tool: name });
    }),
  );
});

verifies('S77', 'a wildcard covers all tools of one server and no other', () => {
  expect(matchesToolName('mcp__cci__*', 'mcp__cci__create_ticket')).toBe(true);
  expect(matchesToolName('mcp__cci__*', 'mcp__cci2__create_ticket')).toBe(false);
  expect(matchesToolName('mcp__cci__*', 'Bash')).toBe(false);
  expect(matchesToolName('mcp__cci', 'mcp__cci__create_ticket')).toBe(true);
  expect(matchesToolName('mcp__cci', 'mcp__cci2__x')).toBe(false);
  expect(matchesToolName('mcp__cci__get_*', 'mcp__cci__get_ticket')).toBe(true);
  expect(matchesToolName('mcp__cci__get_*', 'mcp__cci__create_ticket')).toBe(false);
  expect(matchesToolName('Bash', 'Bash')).toBe(true);
  expect(matchesToolName('Bash', 'BashOutput')).toBe(false);
});

test('a pattern matches as the regular expression with .* for each star does', () => {
  const text = fc.stringMatching(/^[ab_*]{0,12}$/);
  fc.assert(
    fc.property(text, fc.stringMatching(/^[ab_]{0,12}$/), (rule, name) => {
      if (!rule.includes('*')) return;
      const model = new RegExp(`^${rule.replaceAll('*', '.*')}$`);
      expect(matchesToolName(rule, name)).toBe(model.test(name));
    }),
  );
});
