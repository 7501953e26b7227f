import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin, type UserConfig } from 'vite';

/** Writes the licence texts of the packages in the bundle beside it, as their licences require. */
function licenseTexts(): Plugin {
  return {
    name: 'license-texts',
    generateBundle() {
      const folders = [...this.getModuleIds()].flatMap((id) => {
        const folder = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0];
        return folder === undefined ? [] : [folder];
      });
      const source = [...new Set(folders)].sort().map(licenseOf).join('\n\n');
      this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: `${source}\n` });
    },
  };
}

function licenseOf(folder: string): string {
  const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    readonly name: string;
    readonly version: string;
  };
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (file === undefined) throw new Error(`${name} has no licence text`);
  return `${name} ${version}\n\n${readFileSync(join(folder, file), 'utf8').trim()}`;
}

const config: UserConfig = defineConfig({
  plugins: [licenseTexts()],
  root: fileURLToPath(new URL('.', import.meta.url)),
  // The content security policy of the page forbids inline scripts and styles.
  build: {
    outDir: '../dist/web',
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  css: {
    modules: {
      // A class is named after its component, so that it can be read in the inspector of a browser.
      generateScopedName: (name: string, file: string) =>
        `${basename(file.replace(/\?.*$/, ''), '.module.css')}-${name}`,
    },
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
});
export default config;
