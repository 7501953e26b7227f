// `npx tsx scripts/generate-proto.ts` writes the TypeScript of `proto/`, which is checked in.
// `--check` writes nothing and fails if a file is not current.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, posix, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ensurePeer } from './peers.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** The folder for the code of each folder of `proto/`: the part that speaks the protocol. */
const HOMES: Readonly<Record<string, string>> = {
  a2a: 'src/a2a/grpc/gen',
  google: 'src/grpc/gen',
  grpc: 'src/grpc/gen',
  mcp: 'src/mcp/grpc/gen',
  model_context_protocol: 'src/mcp/grpc/gen',
};

const homeOf = (file: string): string => {
  const home = HOMES[file.split('/', 1)[0]!];
  if (home === undefined)
    throw new Error(`proto/${file} has no target folder; add one to scripts/generate-proto.ts`);
  return `${home}/${file}`;
};

/** Every generated file by its path from the root of the project. */
export async function generate(): Promise<Map<string, string>> {
  const peer = await ensurePeer('protobuf');
  if (!peer.available) throw new Error(peer.reason);
  const bin = join(peer.path, 'node_modules', '.bin');
  const out = await mkdtemp(join(tmpdir(), 'duolane-proto-'));
  const plugin = {
    local: join(bin, 'protoc-gen-es'),
    out,
    opt: ['target=ts', 'import_extension=ts'],
  };
  const template = JSON.stringify({ version: 'v2', plugins: [plugin] });
  try {
    await promisify(execFile)(join(bin, 'buf'), ['generate', 'proto', '--template', template], {
      cwd: ROOT,
      env: { ...process.env, BUF_CACHE_DIR: join(out, '.cache') },
    });
    const files = (await readdir(out, { recursive: true })).filter((file) => file.endsWith('.ts'));
    const texts = files.map(async (file) => {
      const path = file.split('\\').join('/');
      return [homeOf(path), adapt(await readFile(join(out, file), 'utf8'), path)] as const;
    });
    return new Map((await Promise.all(texts)).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  } finally {
    await rm(out, { recursive: true, force: true });
  }
}

/**
 * Adapts imports to the target folders, and turns enums into constants: the TypeScript syntax of
 * this repository must be erasable.
 */
function adapt(text: string, path: string): string {
  return text
    .replaceAll(/from "(\.[^"]+)"/g, (_, specifier: string) => {
      const target = homeOf(posix.join(posix.dirname(path), specifier));
      const from = relative(dirname(homeOf(path)), target)
        .split('\\')
        .join('/');
      return `from "${from.startsWith('.') ? from : `./${from}`}"`;
    })
    .replaceAll(/^export enum (\w+) \{\n([^}]*)\}/gm, (_, name: string, body: string) => {
      const members = body.replaceAll(/^( +\w+) = (-?\d+),/gm, '$1: $2,');
      return (
        `export const ${name} = {\n${members}} as const;\n` +
        `export type ${name} = (typeof ${name})[keyof typeof ${name}];`
      );
    });
}

/** Files that differ from what would be generated, or whose .proto is gone. */
export async function stale(): Promise<string[]> {
  const wanted = await generate();
  const found = await Promise.all(
    [...new Set(Object.values(HOMES))]
      .filter((home) => existsSync(join(ROOT, home)))
      .map(async (home) =>
        (await readdir(join(ROOT, home), { recursive: true }))
          .map((file) => `${home}/${file.split('\\').join('/')}`)
          .filter((file) => file.endsWith('.ts')),
      ),
  );
  const differs = [...wanted].map(async ([path, text]) => {
    const there = await readFile(join(ROOT, path), 'utf8').catch(() => undefined);
    return there === text ? [] : [path];
  });
  return [
    ...(await Promise.all(differs)).flat(),
    ...found.flat().filter((path) => !wanted.has(path)),
  ];
}

async function write(): Promise<void> {
  for (const home of new Set(Object.values(HOMES)))
    await rm(join(ROOT, home), { recursive: true, force: true });
  for (const [path, text] of await generate()) {
    await mkdir(dirname(join(ROOT, path)), { recursive: true });
    await writeFile(join(ROOT, path), text);
    console.log(path);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes('--check')) {
    const files = await stale();
    for (const file of files)
      console.error(`${file} is not current; run npx tsx scripts/generate-proto.ts`);
    process.exitCode = files.length > 0 ? 1 : 0;
  } else await write();
}
