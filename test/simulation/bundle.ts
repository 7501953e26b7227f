import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

/** Replaces a text of a file of the product, which must have it exactly once. */
export interface Patch {
  /** Below the root of the repository. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Bundles an entry with the product into one module; `patches` change the product. */
export async function bundle(
  entry: string,
  folder: string,
  patches: readonly Patch[] = [],
): Promise<string> {
  mkdirSync(folder, { recursive: true });
  // What the product loads when it needs it: without ajv, no tool with a schema would run.
  symlinkSync(`${ROOT}node_modules`, `${folder}/node_modules`);
  const missing = new Set(patches);
  await build({
    root: ROOT,
    logLevel: 'error',
    configFile: false,
    plugins: [
      {
        name: 'patches',
        enforce: 'pre',
        load(id) {
          const mine = patches.filter(({ file }) => id === ROOT + file);
          if (mine.length === 0) return undefined;
          let text = readFileSync(id, 'utf8');
          for (const patch of mine) {
            const parts = text.split(patch.from);
            if (parts.length !== 2)
              throw new Error(`${patch.file} has ${parts.length - 1} times: ${patch.from}`);
            text = parts.join(patch.to);
            missing.delete(patch);
          }
          return text;
        },
      },
    ],
    build: {
      ssr: fileURLToPath(new URL(entry, import.meta.url)),
      outDir: folder,
      emptyOutDir: false,
      minify: false,
      sourcemap: true,
      target: 'node20',
      rolldownOptions: { output: { entryFileNames: 'simulation.mjs', codeSplitting: false } },
    },
  });
  const [first] = missing;
  if (first) throw new Error(`${first.file} is not part of the simulation`);
  return `${folder}/simulation.mjs`;
}
