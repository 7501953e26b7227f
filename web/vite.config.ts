import { fileURLToPath } from 'node:url';
import { defineConfig, type UserConfig } from 'vite';

const config: UserConfig = defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  // The content security policy of the page forbids inline scripts and styles.
  build: {
    outDir: '../dist/web',
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
});
export default config;
