import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { bundle } from '../client/bundle.ts';
import type { ScenarioServers } from '../client/scenarios.ts';
import { openServers } from '../client/servers.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';

// The client of `duolane/client` in Bun, Deno and workerd, each from the npm registry.

const runtimes = await peer('runtimes');
const sdk = await peer('a2a-sdk');

/** The first of these files that the peer has: each platform has its own package. */
function binary(...paths: readonly string[]): string {
  const all = paths.map((path) => join(runtimes.path, 'node_modules', path));
  const found = all.find((path) => existsSync(path));
  if (found === undefined) throw new Error(`no binary for this platform: ${all.join(', ')}`);
  return found;
}

const { platform, arch } = process;
const bun = (): string => {
  const cpu = arch === 'arm64' ? 'aarch64' : arch;
  return binary(`@oven/bun-${platform}-${cpu}/bin/bun`, `@oven/bun-${platform}-${cpu}/bin/bun.exe`);
};
const deno = (): string =>
  binary(
    `@deno/${platform}-${arch}-glibc/deno`,
    `@deno/${platform}-${arch}/deno`,
    `@deno/${platform}-${arch}/deno.exe`,
  );
const workerd = (): string => {
  const cpu = arch === 'x64' ? '64' : arch;
  return binary(`@cloudflare/workerd-${platform}-${cpu}/bin/workerd`);
};

const WORKERD_CONFIG = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "internet", network = (allow = ["private", "local"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [
    (name = "worker.js", esModule = embed "worker.js"),
    (name = "scenarios.js", esModule = embed "scenarios.js"),
  ],
  compatibilityDate = "2025-06-01",
);
`;

const WORKER = `import { runScenarios } from './scenarios.js';
export default {
  fetch: async (request) => Response.json(await runScenarios(await request.json())),
};
`;

const PROGRAM = `import { runScenarios } from './scenarios.js';
const servers = JSON.parse(globalThis.process?.argv[2] ?? Deno.args[0]);
console.log(JSON.stringify(await runScenarios(servers)));
`;

suite('runtimes', runtimes.reason ?? sdk.reason, () => {
  let folder: Promise<string> | undefined;

  /** A folder with the bundle and the programs that run it. */
  const files = (): Promise<string> => (folder ??= write());
  async function write(): Promise<string> {
    const path = await mkdtemp(join(tmpdir(), 'duolane-client-'));
    const contents = {
      'scenarios.js': await bundle('test/client/scenarios.ts'),
      'program.js': PROGRAM,
      'worker.js': WORKER,
      'config.capnp': WORKERD_CONFIG,
      'package.json': '{ "type": "module" }',
    };
    for (const [name, text] of Object.entries(contents)) await writeFile(join(path, name), text);
    return path;
  }
  afterAll(async () => {
    if (folder) await rm(await folder, { recursive: true, force: true });
  });

  async function expectAllOk(
    run: (servers: ScenarioServers, path: string) => Promise<string>,
  ): Promise<void> {
    await using opened = await openServers(sdk);
    const results = JSON.parse(await run(opened.servers, await files())) as Record<string, string>;
    expect(Object.keys(results)).toHaveLength(15);
    expect(Object.entries(results).filter(([, result]) => result !== 'ok')).toEqual([]);
  }

  /** Runs the program without the environment of this process, in a home of its own. */
  const output = async (file: string, args: readonly string[], home: string): Promise<string> => {
    const env = {
      HOME: home,
      PATH: '',
      NO_COLOR: '1',
      DENO_NO_UPDATE_CHECK: '1',
      DO_NOT_TRACK: '1',
    };
    const { stdout } = await promisify(execFile)(file, [...args], { cwd: home, env });
    return stdout;
  };

  test('Bun', async () => {
    await expectAllOk((servers, path) =>
      output(bun(), ['run', join(path, 'program.js'), JSON.stringify(servers)], path),
    );
  });

  test('Deno, with permission for the network only', async () => {
    await expectAllOk((servers, path) => {
      const program = join(path, 'program.js');
      const args = ['run', '--quiet', '--no-remote', '--no-npm', '--allow-net=127.0.0.1'];
      return output(deno(), [...args, program, JSON.stringify(servers)], path);
    });
  });

  test('workerd', async () => {
    await expectAllOk(async (servers, path) => {
      const args = ['serve', join(path, 'config.capnp'), '--control-fd=3'];
      const stdio = ['ignore', 'inherit', 'inherit', 'pipe'] as const;
      const child = spawn(workerd(), args, { cwd: path, env: { HOME: path }, stdio: [...stdio] });
      try {
        const port = await portOf(child.stdio[3] as Readable);
        const body = JSON.stringify(servers);
        const response = await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body });
        return await response.text();
      } finally {
        child.kill();
        if (child.exitCode === null) await once(child, 'exit');
      }
    });
  });
});

/** workerd reports the port that it listens on as a line of JSON. */
async function portOf(control: Readable): Promise<number> {
  for await (const line of createInterface({ input: control })) {
    const { event, port } = JSON.parse(line) as { event: string; port?: number };
    if (event === 'listen' && port !== undefined) return port;
  }
  throw new Error('workerd ended before it listened');
}
