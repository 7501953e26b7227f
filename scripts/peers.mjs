// Third-party packages that tests use: each in `peers/<name>` with its own lock file, installed
// when a test first needs it.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { install, ROOT } from './setup.mjs';

const PEERS = join(ROOT, 'peers');

/** The peers that every full test run installs; one with `"duolane": { "optIn": true }` is not. */
export function everydayPeers() {
  return readdirSync(PEERS).filter((name) => {
    const manifest = join(PEERS, name, 'package.json');
    return (
      existsSync(manifest) &&
      existsSync(join(PEERS, name, 'package-lock.json')) &&
      !JSON.parse(readFileSync(manifest, 'utf8')).duolane?.optIn
    );
  });
}

const asked = new Map();

/**
 * Installs a peer. Without a network the result is not `available` and has the reason; any other
 * failure of the install (such as a lock file that does not match) throws.
 */
export function ensurePeer(name, onStart) {
  if (!asked.has(name)) asked.set(name, openPeer(name, onStart));
  return asked.get(name);
}

async function openPeer(name, onStart) {
  const path = join(PEERS, name);
  if (!existsSync(join(path, 'package-lock.json')))
    throw new Error(`unknown peer "${name}": expected peers/${name}/package-lock.json`);
  const failure = await install(path, onStart);
  if (failure !== undefined && !failure.unreachable)
    throw new Error(`cannot install the peer "${name}": ${failure.reason}`);
  const reason = failure && `peer ${name} is not installed: ${failure.reason}`;
  const resolver = failure === undefined ? await openResolver(path) : refuse(reason);
  return { name, path, available: failure === undefined, reason, ...resolver };
}

// Node resolves a package name from the file that imports it, so a file inside the peer has to do
// it.
async function openResolver(path) {
  const file = join(path, 'node_modules', '.resolver.mjs');
  const source =
    'export const resolve = (specifier) => import.meta.resolve(specifier);\n' +
    'export const load = (specifier) => import(specifier);\n';
  if (!existsSync(file)) writeFileSync(file, source);
  const { resolve, load } = await import(pathToFileURL(file).href);
  return { resolve, import: load };
}

function refuse(reason) {
  const fail = () => {
    throw new Error(reason);
  };
  return { resolve: fail, import: async () => fail() };
}
