import { expect, test } from 'vitest';
import { seccompFilter } from './seccomp.ts';
import { readSandbox } from './sandbox-settings.ts';

const read = (sandbox: unknown): unknown =>
  readSandbox(sandbox, { cwd: '/project', home: '/home' });

test('a sandbox that is not enabled has no policy', () => {
  expect(read(undefined)).toBeUndefined();
  expect(read({})).toBeUndefined();
  expect(read({ enabled: false, excludedCommands: ['git *'] })).toBeUndefined();
});

test('by default the network is off and commands need a permission', () => {
  const nothing = { excluded: [], writable: [], readOnly: [], hidden: [] };
  expect(read({ enabled: true })).toEqual({ ...nothing, autoAllow: false, network: 'off' });
  expect(
    read({
      enabled: true,
      failIfUnavailable: true,
      allowUnsandboxedCommands: false,
      autoAllowBashIfSandboxed: true,
      excludedCommands: ['docker *'],
      network: { allowedDomains: ['*'] },
      filesystem: { allowWrite: ['~/cache', '//data'], denyWrite: ['src'], denyRead: ['/etc/x'] },
    }),
  ).toEqual({
    autoAllow: true,
    excluded: ['docker *'],
    network: 'all',
    writable: ['/home/cache', '/data'],
    readOnly: ['/project/src'],
    hidden: ['/etc/x'],
  });
});

test.each([
  [{ failIfUnavailable: false }, 'failIfUnavailable'],
  [{ allowUnsandboxedCommands: true }, 'allowUnsandboxedCommands'],
  [{ ignoreViolations: {} }, 'ignoreViolations'],
  [{ enableWeakerNestedSandbox: true }, 'enableWeakerNestedSandbox'],
  [{ ripgrep: {} }, 'ripgrep'],
  [{ somethingNew: 1 }, 'somethingNew'],
  [{ network: { allowedDomains: ['example.com'] } }, 'network.allowedDomains'],
  [{ network: { allowUnixSockets: ['/x'] } }, 'network.allowUnixSockets'],
  [{ network: { allowLocalBinding: false } }, 'network.allowLocalBinding'],
  [{ network: { httpProxyPort: 1 } }, 'network.httpProxyPort'],
  [{ network: { new: 1 } }, 'network.new'],
  [{ filesystem: { allowRead: [] } }, 'filesystem.allowRead'],
  [{ filesystem: { denyRead: ['**/.env'] } }, 'filesystem.denyRead'],
])('a setting that cannot be enforced is refused, enabled or not: %j', (sandbox, name) => {
  for (const enabled of [true, false])
    expect(() => read({ enabled, ...sandbox })).toThrow(`"sandbox.${name}`);
});

test.each([
  [true, '"sandbox"'],
  [{ enabled: 'yes' }, '"sandbox.enabled"'],
  [{ network: [] }, '"sandbox.network"'],
  [{ excludedCommands: 'git' }, '"sandbox.excludedCommands"'],
  [{ filesystem: { denyRead: [1] } }, '"sandbox.filesystem.denyRead"'],
])('a setting of the wrong type is refused: %j', (sandbox, name) => {
  expect(() => read(sandbox)).toThrow(name);
});

test('the filter has complete instructions for known processors', () => {
  expect(seccompFilter('x64')?.length).toBeGreaterThan(200);
  expect((seccompFilter('arm64')?.length ?? 1) % 8).toBe(0);
  expect(seccompFilter('mips')).toBeUndefined();
});
