import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isObject } from '../../json.ts';
import type { Logger } from '../../event/types.ts';
import type { Disposer } from '../../stream/disposer.ts';
import { Redactor } from '../frames/redact-secrets.ts';

/**
 * Flags that accept JSON or the path of a JSON file, in the vendor's CLI and in `duolane-agent`.
 */
const FILE_FLAGS: ReadonlySet<string> = new Set(['--mcp-config', '--settings']);

/** This flag accepts a path in `duolane-agent` only; the vendor's CLI accepts nothing but JSON. */
const MANAGED = '--managed-settings';

export interface PrivateArgsOptions {
  /** Whether the CLI is `duolane-agent`. */
  readonly isOwnCli: boolean;
  /** Gets a warning for each secret that must stay on the command line. */
  readonly logger: Pick<Logger, 'warn'>;
}

/**
 * Moves secrets out of the command line, which every user of the machine can read with `ps`: a
 * value with headers, variables or credentials goes to a file that only the owner can read. `scope`
 * removes the file. Use it for a CLI on this machine only: one in a container cannot open the file.
 */
export async function privateArgs(
  args: readonly string[],
  scope: Disposer,
  { isOwnCli, logger }: PrivateArgsOptions,
): Promise<readonly string[]> {
  const hidden = args.map((arg, index) => {
    const flag = args[index - 1] ?? '';
    if (!(FILE_FLAGS.has(flag) || flag === MANAGED) || !holdsSecrets(arg)) return false;
    if (flag !== MANAGED || isOwnCli) return true;
    logger.warn(
      'managedSettings contains a secret, and this CLI accepts it on the command line only, which every user of the machine can read; move the secret to the option "settings"',
    );
    return false;
  });
  if (!hidden.includes(true)) return args;
  const folder = await mkdtemp(join(tmpdir(), 'duolane-config-'));
  scope.defer(() => rm(folder, { recursive: true, force: true }));
  await chmod(folder, 0o700);
  return Promise.all(
    args.map(async (arg, index) => {
      if (!hidden[index]) return arg;
      const file = join(folder, `${args[index - 1]?.slice(2)}-${index}.json`);
      await writeFile(file, arg, { mode: 0o600, flag: 'wx' });
      return file;
    }),
  );
}

function holdsSecrets(text: string): boolean {
  if (!/^\s*\{/.test(text)) return false; // a path
  let found = false;
  try {
    const value: unknown = JSON.parse(text, (name, member: unknown) => {
      if ((name === 'env' || name === 'headers') && isObject(member))
        found ||= Object.keys(member).length > 0;
      return member;
    });
    return found || new Redactor({}).json(value) !== JSON.stringify(value);
  } catch {
    return false; // not JSON: the CLI reports it
  }
}
