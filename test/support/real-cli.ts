import { existsSync, mkdirSync, mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildEnv, type ProcessOptions } from '../../src/process/index.ts';
import { peer } from '../peers.ts';

/** The two official CLIs under test: the one in the agent SDK, and the npm package on Node 20. */
export const REAL_CLIS = {
  'claude-cli-2.1': '@anthropic-ai/claude-agent-sdk',
  'claude-code-node20': '@anthropic-ai/claude-code',
} as const;

export type RealCliName = keyof typeof REAL_CLIS;

/** The program, or why it is missing, for `suite(…)`. */
export interface FoundCli {
  readonly command: string;
  readonly missing: string | undefined;
}

/** Installs the peer on first use; some hundred megabytes, so only `npm run test:peers` does. */
export async function findRealCli(name: RealCliName): Promise<FoundCli> {
  const found = await peer(name);
  const platform = `${process.platform}-${process.arch}`;
  const program = process.platform === 'win32' ? 'claude.exe' : 'claude';
  const command = join(found.path, 'node_modules', `${REAL_CLIS[name]}-${platform}`, program);
  if (!found.available) return { command, missing: found.reason ?? `peer ${name} is missing` };
  const missing = existsSync(command) ? undefined : `peer ${name} has no program for ${platform}`;
  return { command, missing };
}

/** The first arguments of the official SDK; without `--verbose` the CLI refuses stream-json. */
export const STREAM_JSON: readonly string[] = [
  '--output-format',
  'stream-json',
  '--verbose',
  '--input-format',
  'stream-json',
];

export interface RealCliOptions {
  readonly command: string;
  /** The scripted model; the CLI can reach nothing else. */
  readonly modelUrl: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export interface RealCli extends ProcessOptions, AsyncDisposable {
  readonly cwd: string;
  /** The folder of its sessions. */
  readonly configDir: string;
}

/**
 * An environment in which the real CLI runs without touching this machine: its own home, config and
 * working directory, no inherited variable except PATH, a dummy key, the model on loopback, no
 * telemetry, no updates. Use it with `spawnProcess` or as options of a host. Disposing removes it;
 * end the CLI first.
 */
export function realCli({ command, modelUrl, args = [], env = {} }: RealCliOptions): RealCli {
  const home = mkdtempSync(join(tmpdir(), 'duolane-cli-'));
  const [configDir, cwd, temporary] = ['config', 'project', 'tmp'].map((name) => {
    mkdirSync(join(home, name));
    return join(home, name);
  }) as [string, string, string];
  return {
    command,
    args: [...STREAM_JSON, ...args],
    cwd,
    configDir,
    env: buildEnv({
      allow: ['PATH'],
      set: {
        HOME: home,
        TMPDIR: temporary,
        CLAUDE_CONFIG_DIR: configDir,
        ANTHROPIC_BASE_URL: modelUrl,
        ANTHROPIC_API_KEY: 'dummy-key-for-loopback',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        DISABLE_TELEMETRY: '1',
        DISABLE_ERROR_REPORTING: '1',
        DISABLE_AUTOUPDATER: '1',
        CLAUDE_CODE_ENTRYPOINT: 'sdk-ts',
        ...env,
      },
    }),
    async [Symbol.asyncDispose]() {
      await rm(home, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
