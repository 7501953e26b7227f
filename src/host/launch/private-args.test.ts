import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { collect, FakeCli } from '../../../test/support/fake-cli.ts';
import type { Launch, McpServerConfig, SessionOptions } from '../options/options.ts';
import { openSession, query } from '../index.ts';
import { Disposer } from '../../stream/disposer.ts';
import { privateArgs } from './private-args.ts';

const SECRET = 'very-secret-value';

/** A CLI that reports its arguments, and the files among them. */
function reportingCli(): string {
  const folder = mkdtempSync(join(tmpdir(), 'duolane-reporting-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'cli.mjs');
  writeFileSync(
    path,
    `import { existsSync, readFileSync, statSync } from 'node:fs';
    const args = process.argv.slice(2);
    const files = args.filter((arg) => existsSync(arg)).map((path) => ({
      path, text: readFileSync(path, 'utf8'), mode: statSync(path).mode & 0o777,
    }));
    let done = false;
    process.stdin.on('data', (text) => {
      for (const line of String(text).trim().split('\\n')) {
        const { type, request_id } = JSON.parse(line);
        if (type === 'control_request')
          console.log(JSON.stringify({ type: 'control_response', response: { subtype: 'success', request_id, response: {} } }));
        else if (!done) console.log(JSON.stringify({ type: 'result', subtype: 'success', is_error: false, args, files }));
        done ||= type === 'user';
      }
    });`,
  );
  return path;
}

interface Report {
  readonly args: readonly string[];
  readonly files: readonly {
    readonly path: string;
    readonly text: string;
    readonly mode: number;
  }[];
}

async function reportOf(options: SessionOptions): Promise<Report> {
  const pathToClaudeCodeExecutable = reportingCli();
  const seen = await collect(
    query({ prompt: 'go', options: { pathToClaudeCodeExecutable, ...options } }),
  );
  return seen.at(-1) as unknown as Report;
}

const url = 'http://127.0.0.1:9/mcp';

test.each<[string, McpServerConfig]>([
  ['headers', { type: 'http', url, headers: { 'X-Key': SECRET } }],
  ['variables', { command: 'x', env: { FOO: SECRET } }],
  ['the login of a URL', { type: 'sse', url: `http://u:${SECRET}@127.0.0.1:9/` }],
  ['a parameter of a URL', { type: 'http', url: `${url}?token=${SECRET}` }],
])('a server with %s is passed in a private file that is gone at the end', async (_, config) => {
  const { args, files } = await reportOf({ mcpServers: { s: config } });
  expect(args.join(' ')).not.toContain(SECRET);
  expect(files).toHaveLength(1);
  const [file] = files;
  expect(JSON.parse(file?.text ?? '')).toEqual({ mcpServers: { s: config } });
  expect(file?.mode).toBe(0o600);
  expect(args[args.indexOf('--mcp-config') + 1]).toBe(file?.path);
  // On a busy machine the release outlives the session, which waits for it only so long.
  await expect.poll(() => existsSync(file?.path ?? '')).toBe(false);
});

test('settings with an environment go to a private file', async () => {
  const { args, files } = await reportOf({ settings: { env: { FOO: SECRET } } });
  expect(args.join(' ')).not.toContain(SECRET);
  expect(files.map(({ text }) => text)).toEqual([JSON.stringify({ env: { FOO: SECRET } })]);
});

test('managed settings go to a private file for duolane-agent', async () => {
  const json = JSON.stringify({ env: { FOO: SECRET } });
  await using scope = new Disposer();
  const warn = vi.fn<(message: string) => void>();
  const args = await privateArgs(['--managed-settings', json], scope, {
    isOwnCli: true,
    logger: { warn },
  });
  expect(args.join(' ')).not.toContain(SECRET);
  expect(readFileSync(args[1] ?? '', 'utf8')).toBe(json);
  expect(warn).not.toHaveBeenCalled();
});

test('managed settings stay an argument for another CLI, with a warning', async () => {
  const warn = vi.fn<(message: string) => void>();
  const logger = { debug() {}, info() {}, warn, error() {} };
  const managedSettings = { env: { FOO: SECRET } };
  const { args } = await reportOf({ managedSettings, logger });
  expect(args).toContain(JSON.stringify(managedSettings));
  expect(JSON.stringify(warn.mock.calls)).toContain('managedSettings contains a secret');
  expect(JSON.stringify(warn.mock.calls)).not.toContain(SECRET);
});

test('a value without secrets stays an argument', async () => {
  const { args, files } = await reportOf({ mcpServers: { s: { type: 'http', url } } });
  expect(files).toEqual([]);
  expect(args).toContain(JSON.stringify({ mcpServers: { s: { type: 'http', url } } }));
});

test('a CLI that the app starts itself gets the JSON, since it may not see our files', async () => {
  const cli = new FakeCli();
  let launch: Launch | undefined;
  const transport = (given: Launch): FakeCli['transport'] => {
    launch = given;
    return cli.transport;
  };
  const headers = { 'X-Key': SECRET };
  await using _ = await openSession({
    transport,
    mcpServers: { s: { type: 'http', url, headers } },
  });
  expect(launch?.args.join(' ')).toContain(SECRET);
});
