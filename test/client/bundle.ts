import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build, type Rolldown } from 'vite';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Bundles a module of the repository for a browser, minified, and returns the code. */
export async function bundle(path: string, external: readonly string[] = []): Promise<string> {
  const output = (await build({
    root: ROOT,
    configFile: false,
    logLevel: 'error',
    build: {
      write: false,
      minify: 'oxc',
      target: 'es2022',
      modulePreload: false,
      rolldownOptions: {
        input: `${ROOT}${path}`,
        external: [...external],
        preserveEntrySignatures: 'strict',
        output: { format: 'es' },
      },
    },
  })) as Rolldown.RolldownOutput;
  const chunks = output.output;
  if (chunks.length !== 1) throw new Error(`expected one file, got ${chunks.length}`);
  return chunks.map((each) => ('code' in each ? each.code : '')).join('');
}

export const gzipBytes = (code: string): number => gzipSync(code, { level: 9 }).byteLength;
