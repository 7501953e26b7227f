import { isAbsolute, join, resolve } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';

/** What `sandbox` of the settings asks for, checked. */
export interface SandboxPolicy {
  /** A command in the sandbox needs no further permission; deny and ask rules still hold. */
  readonly autoAllow: boolean;
  /** Patterns of commands that run without it, as in `Bash(…)`. */
  readonly excluded: readonly string[];
  readonly network: 'off' | 'all';
  /** Absolute paths, beside the working directories. */
  readonly writable: readonly string[];
  readonly readOnly: readonly string[];
  readonly hidden: readonly string[];
}

/** What the official settings have and this sandbox cannot enforce, with what to do instead. */
const UNSUPPORTED: Readonly<Record<string, string>> = {
  ignoreViolations: 'violations are errors of the command',
  enableWeakerNestedSandbox: 'there is one sandbox, and it is not weakened',
  enableWeakerNetworkIsolation: 'there is one sandbox, and it is not weakened',
  ripgrep: 'Grep runs in this process',
  'network.deniedDomains': 'domains cannot be told apart here: the network is off or open',
  'network.allowManagedDomainsOnly': 'there are no managed settings',
  'network.allowUnixSockets': 'sockets of this machine cannot be opened from the sandbox',
  'network.allowAllUnixSockets': 'sockets of this machine cannot be opened from the sandbox',
  'network.allowLocalBinding': 'a command has a loopback of its own and may always bind it',
  'network.allowMachLookup': 'this is not macOS',
  'network.httpProxyPort': 'there is no proxy: the network is off or open',
  'network.socksProxyPort': 'there is no proxy: the network is off or open',
  'filesystem.allowRead': 'denyRead has no exceptions',
  'filesystem.allowManagedReadPathsOnly': 'there are no managed settings',
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
 * The policy, or undefined when `sandbox` is not enabled. Every member is checked, enabled or not: one
 * that is not enforced throws `unsupported`, one of the wrong kind `invalid`. To ignore it would let
 * a command out of a sandbox that its owner relies on.
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
    throw unsupported('failIfUnavailable: false', 'without a sandbox nothing runs; remove it');
  if (flag(sandbox, 'allowUnsandboxedCommands', false))
    throw unsupported(
      'allowUnsandboxedCommands: true',
      'a model cannot leave the sandbox; name the commands in excludedCommands',
    );
  const paths = (name: string): string[] =>
    list(filesystem, `filesystem.${name}`, name).map((path) => place(path, name, cwd, home));
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
    const why = UNSUPPORTED[`${prefix}${name}`] ?? 'it is not known here; remove it';
    throw unsupported(`${prefix}${name}`, why);
  }
}

/** A list of domains cannot be enforced without a proxy; none and all of them can. */
function domains(allowed: readonly string[]): 'off' | 'all' {
  if (allowed.length === 0) return 'off';
  if (allowed.every((domain) => domain === '*')) return 'all';
  throw unsupported(
    'network.allowedDomains',
    'domains cannot be told apart here; leave it out for no network, or write ["*"] for all of it',
  );
}

function place(path: string, name: string, cwd: string, home: string): string {
  if (/[*?[\]{}]/.test(path))
    throw unsupported(`filesystem.${name}`, `patterns are not paths: "${path}"`);
  if (path.startsWith('~/')) return join(home, path.slice(2));
  // `//etc` is how the official CLI writes an absolute path.
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
  throw new DuolaneError('invalid', `invalid setting "sandbox.${path}": expected a list of texts`);
}

const unsupported = (name: string, why: string): DuolaneError =>
  new DuolaneError('unsupported', `setting "sandbox.${name}" is not supported: ${why}`);
