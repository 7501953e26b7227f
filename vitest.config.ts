import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** Examples import the package by its name, as its users do; here that is the source. */
const source = fileURLToPath(new URL('./src/', import.meta.url));
const alias = [
  { find: /^duolane$/, replacement: `${source}index.ts` },
  { find: /^duolane\/([\w/-]+)$/, replacement: `${source}$1/index.ts` },
];

/** `unit`: beside the code, in seconds. `system`: crosses parts, starts processes, talks to peers. */
export default defineConfig({
  test: {
    // Most of them wait for processes and sockets, so even two cores have room for two files.
    maxWorkers: 2,
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts'],
          isolate: false,
          testTimeout: 10_000,
        },
      },
      {
        resolve: { alias },
        test: {
          name: 'system',
          include: ['test/**/*.test.ts', 'examples/**/*.test.ts'],
          globalSetup: ['test/build.ts'],
          isolate: false,
          testTimeout: 30_000,
        },
      },
    ],
  },
});
