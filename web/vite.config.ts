import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  build: { outDir: '../dist/web', emptyOutDir: true, modulePreload: { polyfill: false } },
  // Inline nothing: the content security policy forbids it.
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
});
