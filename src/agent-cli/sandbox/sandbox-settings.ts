import { isAbsolute, join, resolve } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';

/** The validated setting `sandbox`. */
export interface SandboxPolicy {
  /** A command in the sandbox needs no permission; deny and ask rules still apply. */
  readonly autoAllow: boolean;
  /** Patterns of commands that run outside of the sandbox, as in `Bash(…)`. */
  readonly excluded: readonly string[];
  readonly network: 'off' | 'all';
  /** Absolute paths, in addition to the working directories. */
  readonly writable: readonly string[];
  readonly readOnly: readonly string[];
  readonly hidden: readonly string[];
}

/** Official settings that this sandbox cannot enforce, each with the reason. */
const UNSUPPORTED: Readonly<Record<string, string>> = {
  ignoreViolations: 'a violation is an error of the command',
  enableWeakerNestedSandbox: 'the sandbox cannot be weakened',
  enableWeakerNetworkIsolation: 'the sandbox cannot be weakened',
  ripgrep: 'Grep runs inside duolane-agent',
  'network.deniedDomains': 'the network is either off or open, for all domains',
  'network.allowManagedDomainsOnly': 'managed settings are not supported',
  'network.allowUnixSockets': 'commands cannot open sockets of this machine',
  'network.allowAllUnixSockets': 'commands cannot open sockets of this machine',
  'network.allowLocalBinding': 'a command may always bind its own loopback interface',
  'network.allowMachLookup': 'it exists on macOS only',
  'network.httpProxyPort': 'the sandbox has no proxy; the network is off or open',
  'network.socksProxyPort': 'the sandbox has no proxy; the network is off or open',
  'filesystem.allowRead': 'denyRead has no exceptions',
  'filesystem.allowManagedReadPathsOnly': 'managed settings are not supported',
};

const SUPPORTED: Readonly<Record<string, readonly string[]>> = {
  '': [
    'enabled',
    'failIfUnavailable',
    'autoAllowBashIfSandboxed',
    'allowUnsandboxedCommands',
    'excludedCommands',
    'network',
    'filesystem',
  ],
  'network.': ['allowedDomains'],
  'filesystem.': ['allowWrite', 'denyWrite', 'denyRead'],
};

/**
 * Validates the setting `sandbox`. Undefined: it is not enabled. Every member is checked, also if
 * the sandbox is not enabled: one that cannot be enforced throws `unsupported`, one of the wrong
 * type `invalid`. Ignoring a member would weaken a sandbox that the user relies on.
 */
export function readSandbox(
  given: unknown,
  { cwd, home }: { readonly cwd: string; readonly home: string },
): SandboxPolicy | undefined {
  if (given === undefined) return undefined;
  const sandbox = object('sandbox', given);
  checkMembers(sandbox, '');
  const network = object('sandbox.network', sandbox['network'] ?? {});
  checkMembers(network, 'network.');
  const filesystem = object('sandbox.filesystem', sandbox['filesystem'] ?? {});
  checkMembers(filesystem, 'filesystem.');
  const enabled = flag(sandbox, 'enabled', false);
  if (!flag(sandbox, 'failIfUnavailable', true))
    throw unsupported(
      'failIfUnavailable: false',
      'no command runs if the sandbox is not available; remove it',
    );
  if (flag(sandbox, 'allowUnsandboxedCommands', false))
    throw unsupported(
      'allowUnsandboxedCommands: true',
      'the model cannot choose to run a command outside; name such commands in excludedCommands',
    );
  const paths = (name: string): string[] =>
    list(filesystem, `filesystem.${name}`, name).map((path) => absolute(path, name, cwd, home));
  const policy: SandboxPolicy = {
    autoAllow: flag(sandbox, 'autoAllowBashIfSandboxed', false),
    excluded: list(sandbox, 'excludedCommands', 'excludedCommands'),
    network: domains(list(network, 'network.allowedDomains', 'allowedDomains')),
    writable: paths('allowWrite'),
    readOnly: paths('denyWrite'),
    hidden: paths('denyRead'),
  };
  return enabled ? policy : undefined;
}

function checkMembers(value: JsonObject, prefix: string): void {
  for (const name of Object.keys(value)) {
    if (value[name] === undefined || SUPPORTED[prefix]?.includes(name)) continue;
    const why = UNSUPPORTED[`${prefix}${name}`] ?? 'unknown setting; remove it';
    throw unsupported(`${prefix}${name}`, why);
  }
}

/** Without a proxy only "no domain" and "all domains" can be enforced. */
function domains(allowed: readonly string[]): 'off' | 'all' {
  if (allowed.length === 0) return 'off';
  if (allowed.every((domain) => domain === '*')) return 'all';
  throw unsupported(
    'network.allowedDomains',
    'single domains cannot be allowed; remove it for no network, or use ["*"] for all domains',
  );
}

function absolute(path: string, name: string, cwd: string, home: string): string {
  if (/[*?[\]{}]/.test(path))
    throw unsupported(`filesystem.${name}`, `expected a path, not the pattern "${path}"`);
  if (path.startsWith('~/')) return join(home, path.slice(2));
  // The official CLI writes absolute paths with two slashes: `//etc`.
  return isAbsolute(path) ? path.replace(/^\/+/, '/') : resolve(cwd, path);
}

function object(name: string, value: unknown): JsonObject {
  if (isObject(value)) return value;
  throw new DuolaneError('invalid', `invalid setting "${name}": expected an object`);
}

function flag(value: JsonObject, name: string, otherwise: boolean): boolean {
  const given = value[name] ?? otherwise;
  if (typeof given === 'boolean') return given;
  throw new DuolaneError('invalid', `invalid setting "sandbox.${name}": expected true or false`);
}

function list(value: JsonObject, path: string, name: string): readonly string[] {
  const given = value[name] ?? [];
  if (Array.isArray(given) && given.every((each) => typeof each === 'string')) return given;
  throw new DuolaneError(
    'invalid',
    `invalid setting "sandbox.${path}": expected a list of strings`,
  );
}

const unsupported = (name: string, why: string): DuolaneError =>
  new DuolaneError('unsupported', `setting "sandbox.${name}" is not supported: ${why}`);
