import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DuolaneError } from '../../errors.ts';
import { buildEnv } from '../../process/env.ts';
import type { Launch, SessionOptions } from '../options/options.ts';

const SCRIPT = /\.(?:m?js|tsx?|jsx)$/;
const DAY_MS = 24 * 60 * 60 * 1000;

/** Command, arguments and environment of the CLI that the options select. */
export function launchOf(options: SessionOptions, flags: readonly string[]): Launch {
  const path = options.pathToClaudeCodeExecutable ?? ownCli();
  const { executable = 'node', executableArgs = [] } = options;
  const where = {
    env: environmentOf(options),
    ...(options.cwd !== undefined && { cwd: options.cwd }),
  };
  // `spawnProcess` runs a script with this Node.js, and reports a file that does not exist.
  const direct = !SCRIPT.test(path) || (executable === 'node' && executableArgs.length === 0);
  if (direct) return { command: path, args: flags, ...where };
  const command = executable === 'node' ? process.execPath : executable;
  return { command, args: [...executableArgs, path, ...flags], ...where };
}

/**
 * The complete environment of the CLI. As in the official SDK, `env` replaces the environment of
 * this process, unless `inheritEnv` adds it or a part of it. `NODE_OPTIONS` and `DEBUG` are
 * removed, also from `env`, which programs often copy from their own environment: they would change
 * the CLI's behaviour and its output. `DEBUG_CLAUDE_AGENT_SDK` keeps `DEBUG`. Defaults set here do
 * not override given values.
 */
export function environmentOf(options: SessionOptions): Readonly<Record<string, string>> {
  const { env, inheritEnv = env === undefined, streamCloseTimeoutMs = DAY_MS } = options;
  const allow = inheritEnv === true ? undefined : inheritEnv || [];
  const inherited = buildEnv({ ...(allow && { allow }) });
  const keepsDebug =
    process.env['DEBUG_CLAUDE_AGENT_SDK'] !== undefined ||
    env?.['DEBUG_CLAUDE_AGENT_SDK'] !== undefined;
  const previewFormat = options.toolConfig?.askUserQuestion?.previewFormat;
  return buildEnv({
    base: {},
    set: {
      CLAUDE_CODE_ENTRYPOINT: 'sdk-ts',
      CLAUDE_CODE_STREAM_CLOSE_TIMEOUT: String(streamCloseTimeoutMs),
      ...inherited,
      ...env,
      CLAUDE_CODE_SDK_READS_SESSION_STATE: '1',
      ...(options.enableFileCheckpointing && { CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING: 'true' }),
      ...(previewFormat && { CLAUDE_CODE_QUESTION_PREVIEW_FORMAT: previewFormat }),
      NODE_OPTIONS: undefined,
      ...(!keepsDebug && { DEBUG: undefined }),
    },
  });
}

/** Whether the options start `duolane-agent`. */
export const isOwnCli = ({ pathToClaudeCodeExecutable: path }: SessionOptions): boolean =>
  path === undefined || path === ownCli();

/** The path of the built `duolane-agent`; from the sources it lies in `dist`. */
function ownCli(): string {
  const built = import.meta.url.endsWith('.ts')
    ? '../../../dist/agent-cli/main.js'
    : '../../agent-cli/main.js';
  return fileURLToPath(new URL(built, import.meta.url));
}

/**
 * The path of the vendor's CLI, for `pathToClaudeCodeExecutable`: from the agent SDK's platform
 * package, from the package `@anthropic-ai/claude-code`, or `claude` in PATH. Throws `not_found`
 * with the package to install.
 *
 * @example
 * const session = await openSession({ pathToClaudeCodeExecutable: officialCli() });
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
    `official CLI not found under ${from}; run npm install @anthropic-ai/claude-agent-sdk, or pass its path as pathToClaudeCodeExecutable`,
  );
}

function packageFolder(require: NodeJS.Require, name: string): string | undefined {
  try {
    return dirname(require.resolve(`${name}/package.json`));
  } catch {
    // A package that cannot be resolved is not installed; officialCli tries the next one.
    return undefined;
  }
}
