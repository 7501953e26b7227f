import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DuolaneError } from '../../errors.ts';
import { buildEnv } from '../../process/env.ts';
import type { Launch, SessionOptions } from '../options/options.ts';

const SCRIPT = /\.(?:m?js|tsx?|jsx)$/;
const DAY_MS = 24 * 60 * 60 * 1000;

/** Program, arguments and environment of the CLI that the options ask for. */
export function launchOf(options: SessionOptions, flags: readonly string[]): Launch {
  const path = options.pathToClaudeCodeExecutable ?? ownCli();
  const { executable = 'node', executableArgs = [] } = options;
  const where = {
    env: environmentOf(options),
    ...(options.cwd !== undefined && { cwd: options.cwd }),
  };
  // A script is run by this Node, unless another one is asked for; `process` says if it is missing.
  const direct = !SCRIPT.test(path) || (executable === 'node' && executableArgs.length === 0);
  if (direct) return { command: path, args: flags, ...where };
  const command = executable === 'node' ? process.execPath : executable;
  return { command, args: [...executableArgs, path, ...flags], ...where };
}

/**
 * The whole environment of the CLI. `env` replaces ours, as in the official SDK, unless `inheritEnv`
 * adds ours or a part of it. `NODE_OPTIONS` is not inherited, and `DEBUG` neither; what we set gives
 * way to what is there.
 */
export function environmentOf(options: SessionOptions): Readonly<Record<string, string>> {
  const { env, inheritEnv = env === undefined, streamCloseTimeoutMs = DAY_MS } = options;
  const allow = inheritEnv === true ? undefined : inheritEnv || [];
  const inherited = buildEnv({
    ...(allow && { allow }),
    set: process.env['DEBUG_CLAUDE_AGENT_SDK'] === undefined ? { DEBUG: undefined } : {},
  });
  return buildEnv({
    base: {},
    set: {
      CLAUDE_CODE_ENTRYPOINT: 'sdk-ts',
      CLAUDE_CODE_STREAM_CLOSE_TIMEOUT: String(streamCloseTimeoutMs),
      ...inherited,
      ...env,
      CLAUDE_CODE_SDK_READS_SESSION_STATE: '1',
      ...(options.enableFileCheckpointing && { CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING: 'true' }),
    },
  });
}

/** Whether the options start our own CLI. */
export const isOwnCli = ({ pathToClaudeCodeExecutable: path }: SessionOptions): boolean =>
  path === undefined || path === ownCli();

/** Our own CLI, `duolane-agent`, as built beside this file. */
function ownCli(): string {
  const built = import.meta.url.endsWith('.ts')
    ? '../../../dist/agent-cli/main.js'
    : '../../agent-cli/main.js';
  return fileURLToPath(new URL(built, import.meta.url));
}

/**
 * The vendor's CLI, for `pathToClaudeCodeExecutable`: of the agent SDK's platform package, of the
 * package `@anthropic-ai/claude-code`, or `claude` in PATH. Throws `not_found`, saying what to install.
 */
export function officialCli({ from = process.cwd() }: { readonly from?: string } = {}): string {
  const require = createRequire(join(from, 'package.json'));
  const platform = `@anthropic-ai/claude-agent-sdk-${process.platform}-${process.arch}`;
  const name = process.platform === 'win32' ? 'claude.exe' : 'claude';
  for (const each of [platform, `${platform}-musl`, '@anthropic-ai/claude-code']) {
    const folder = packageFolder(require, each);
    const found =
      folder && [name, 'cli.js', join('bin', name)].find((file) => existsSync(join(folder, file)));
    if (folder && found) return join(folder, found);
  }
  const inPath = (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((file) => existsSync(file));
  if (inPath !== undefined) return inPath;
  throw new DuolaneError(
    'not_found',
    `the official CLI is not installed under ${from}; npm install @anthropic-ai/claude-agent-sdk, or pass its path as pathToClaudeCodeExecutable`,
  );
}

function packageFolder(require: NodeJS.Require, name: string): string | undefined {
  try {
    return dirname(require.resolve(`${name}/package.json`));
  } catch {
    // A package that cannot be resolved is not installed; the caller says so.
    return undefined;
  }
}
